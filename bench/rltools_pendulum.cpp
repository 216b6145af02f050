/* rltools_pendulum.cpp - RLtools' PPO on Pendulum-v1 with the work of pendulum.c: 74 rollouts of 4 environments x 1024
   steps, minibatches of 256, 2 epochs, separate 64-64 ReLU networks, observations normalized, with OpenBLAS.

   Prints the seconds of training, and the mean return of 100 episodes afterwards. rltools_pendulum [SEED]. Its headers
   come with Python's package rltools. */
#include <rl_tools/operations/cpu_mux.h>

#include <rl_tools/nn/optimizers/adam/instance/operations_generic.h>

#include <rl_tools/nn/operations_cpu_mux.h>

#include <rl_tools/nn/layers/standardize/operations_generic.h>
#include <rl_tools/nn_models/mlp/operations_generic.h>
#include <rl_tools/nn_models/mlp_unconditional_stddev/operations_generic.h>
#include <rl_tools/nn_models/sequential/operations_generic.h>

#include <rl_tools/nn/optimizers/adam/operations_generic.h>

#include <rl_tools/rl/environments/pendulum/operations_cpu.h>

#include <rl_tools/rl/algorithms/ppo/loop/core/config.h>
#include <rl_tools/rl/loop/steps/evaluation/config.h>
#include <rl_tools/rl/algorithms/ppo/loop/core/operations_generic.h>
#include <rl_tools/rl/loop/steps/evaluation/operations_generic.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace rlt = rl_tools;

using Device = rlt::devices::DEVICE_FACTORY<>;
using Rng = Device::SPEC::RANDOM::ENGINE<>;
using Index = Device::index_t;
using Policy = rlt::numeric_types::Policy<float>;
using Pendulum =
    rlt::rl::environments::Pendulum<rlt::rl::environments::pendulum::Specification<float, Index>>;

struct Parameters : rlt::rl::algorithms::ppo::loop::core::DefaultParameters<Policy, Index, Pendulum> {
    static constexpr Index STEP_LIMIT = 74;
    static constexpr Index EPISODE_STEP_LIMIT = 200;
    static constexpr Index N_ENVIRONMENTS = 4;
    static constexpr Index ON_POLICY_RUNNER_STEPS_PER_ENV = 1024;
    static constexpr Index DATASET_SIZE = N_ENVIRONMENTS * ON_POLICY_RUNNER_STEPS_PER_ENV;
    static constexpr Index BATCH_SIZE = 256;
    static constexpr bool NORMALIZE_OBSERVATIONS = true;
    static constexpr bool NORMALIZE_OBSERVATIONS_CONTINUOUSLY = true;
    struct PPO_PARAMETERS : rlt::rl::algorithms::ppo::DefaultParameters<Policy, Index, BATCH_SIZE> {
        static constexpr float GAMMA = 0.95f;
        static constexpr float ACTION_ENTROPY_COEFFICIENT = 0.0f;
        static constexpr float INITIAL_ACTION_STD = 1.0f;
        static constexpr Index N_EPOCHS = 2;
    };
};
using Core = rlt::rl::algorithms::ppo::loop::core::Config<Policy, Index, Rng, Pendulum, Parameters>;

using Episodes = rlt::rl::utils::evaluation::Specification<Policy, Index, Pendulum, 100, 200>;

int main(int argc, char **argv) {
    Device device;
    Core::State<Core> state;
    Pendulum pendulum;
    rlt::rl::environments::DummyUI ui;
    rlt::rl::utils::evaluation::Result<Episodes> result;
    rlt::Mode<rlt::mode::Evaluation<>> mode;
    Rng rng;
    rlt::init(device);
    rlt::malloc(device, state);
    rlt::malloc(device, pendulum);
    rlt::malloc(device, rng);
    rlt::init(device, state, argc > 1 ? std::atoi(argv[1]) : 1);
    rlt::init(device, rng, 1000);
    auto began = std::chrono::steady_clock::now();
    while (!rlt::step(device, state)) {
    }
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
    rlt::evaluate(device, pendulum, ui, rlt::get_actor(state), result, rng, mode);
    std::printf("\nresult %.6f %.2f\n", seconds.count(), (double)result.returns_mean);
    rlt::free(device, state);
}
