"""Trains each task with Stable-Baselines3 and appends the results to results/sb3.jsonl; see README.md."""
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization

from common import EVAL_EPISODES, TASKS, sweep


class Curve(BaseCallback):
    def __init__(self):
        super().__init__()
        self.points = []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        returns = [episode["r"] for episode in self.model.ep_info_buffer]  # of the last 100 episodes
        if returns:
            self.points.append([self.num_timesteps, sum(returns) / len(returns)])


def scheduled(value, schedule):
    return {"constant": value, "linear": lambda left: left * value}[schedule]


def make_env(task, n, seed, training):
    """n copies; their rewards are normalized in training only."""
    c = TASKS[task]["config"]
    env = make_vec_env(task, n_envs=n, seed=seed)
    if c["normalize_obs"] or c["normalize_reward"]:
        env = VecNormalize(env, training=training, norm_obs=c["normalize_obs"],
                           norm_reward=training and c["normalize_reward"], gamma=c["gamma"],
                           clip_obs=c["clip_obs"], clip_reward=c["clip_reward"])
    return env


def run(task, seed):
    torch.set_num_threads(1)
    c = TASKS[task]["config"]
    seed *= 1000  # copy i of an environment gets seed + i: no two runs share one
    env = make_env(task, c["num_envs"], seed, training=True)
    widths = [int(width) for width in c["hidden"].split(",")]
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=c["rollout_steps"],
        batch_size=c["minibatch_size"],
        n_epochs=c["epochs"],
        learning_rate=scheduled(c["learning_rate"], c["learning_rate_schedule"]),
        gamma=c["gamma"],
        gae_lambda=c["gae_lambda"],
        clip_range=scheduled(c["clip_low"], c["clip_schedule"]),
        clip_range_vf=c["value_clip"] or None,
        normalize_advantage=c["normalize_advantage"],
        ent_coef=c["entropy_coef"],
        vf_coef=c["value_coef"] / 2,  # of the mean squared error; value_coef weighs half of it
        max_grad_norm=c["max_grad_norm"],
        use_sde=c.get("gsde", False),
        sde_sample_freq=c.get("gsde_steps", 0) or -1,
        policy_kwargs={
            "net_arch": widths if c["shared_trunk"] else {"pi": widths, "vf": widths},
            "activation_fn": {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}[c["activation"]],
            "ortho_init": c.get("init", "orthogonal") == "orthogonal",
            "log_std_init": c.get("log_std_init", 0.0),
            "optimizer_kwargs": {"eps": c["adam_eps"]},
        },
        device="cpu",
        seed=seed,
    )
    curve = Curve()
    model.learn(c["total_steps"], callback=curve)
    fresh = make_env(task, 10, seed + 500, training=False)
    if isinstance(env, VecNormalize):
        sync_envs_normalization(env, fresh)
    final, _ = evaluate_policy(model, fresh, EVAL_EPISODES, deterministic=True)
    return model.num_timesteps, float(final), curve.points


if __name__ == "__main__":
    sweep("sb3", run)
