// Game.cs - characters that learn inside a game in C#: the game of examples/game.c, by Ppo.cs.
//
// Sixteen characters each catch what falls on their side of the screen. In each frame all act, the world moves on, and what
// they see and earn goes to the trainer, which then learns for a slice of half a millisecond. You will see how many they
// catch, and at the end how many the trained policy catches with its most likely actions.
//
//     make shared
//     mcs -out:build/Game.exe examples/csharp/*.cs
//     LD_LIBRARY_PATH=build mono build/Game.exe [frames [seed [milliseconds]]]
using System;

internal sealed class Character {
    internal const int Sees = 4;
    private readonly Random random;
    private float x, thingX, thingY, drift; // the character and the thing, from -1 to 1; the thing's way per frame

    internal Character(int seed) {
        random = new Random(seed);
        Drop();
    }

    private float Between(float low, float high) { return low + (high - low) * (float)random.NextDouble(); }

    private void Drop() {
        thingX = Between(-1, 1);
        thingY = 1;
        drift = Between(-0.03f, 0.03f);
    }

    internal void Observe(float[] obs, int at) {
        obs[at] = x;
        obs[at + 1] = thingX;
        obs[at + 2] = thingY;
        obs[at + 3] = 30 * drift;
    }

    // A frame, in which it steps left (0), stays (1) or steps right. 1: it caught the thing; -1: it missed it; 0: that falls.
    internal int MoveOn(int action) {
        x = Math.Min(1, Math.Max(-1, x + 0.05f * (action - 1)));
        thingX += drift;
        if (Math.Abs(thingX) > 1) {
            drift = -drift;
            thingX = Math.Sign(thingX);
        }
        thingY -= 0.05f;
        if (thingY > -1) return 0;
        bool caught = Math.Abs(x - thingX) < 0.1f;
        Drop();
        return caught ? 1 : -1;
    }
}

internal static class Game {
    private const int Characters = 16, Second = 1000;

    private static int Main(string[] args) {
        int frames = args.Length > 0 ? int.Parse(args[0]) : 8000, seed = args.Length > 1 ? int.Parse(args[1]) : 1;
        double slice = args.Length > 2 ? double.Parse(args[2], System.Globalization.CultureInfo.InvariantCulture) : 0.5;
        try {
            Console.WriteLine("caught at last: {0:0} %", 100 * Play(frames, seed, slice));
            return 0;
        } catch (PpoException error) {
            Console.Error.WriteLine(error.Message);
            return 1;
        }
    }

    // Trains, then plays without learning. Returns the share that is caught then.
    private static double Play(int frames, int seed, double slice) {
        using (var world = new PpoWorld("catch", Character.Sees, "discrete 3"))
        using (var config = new PpoConfig()) {
            config.Set("num_envs", Characters);
            config.Set("rollout_steps", 128);
            config.Set("epochs", 8);
            config.Set("gamma", 0.95);
            config.Set("learning_rate", 1e-3);
            config["learning_rate_schedule"] = "constant";
            config.Set("entropy_coef", 0.01);
            config.Set("total_steps", 1e9);
            config.Set("seed", seed);
            using (var agent = new PpoAgent(world, config)) {
                var all = new Character[Characters];
                for (int i = 0; i < Characters; ++i) all[i] = new Character(1000 * seed + i);
                using (var trainer = new PpoTrainer(world, config, agent)) Train(trainer, all, frames, slice);
                var obs = new float[Characters * Character.Sees];
                var action = new int[Characters];
                int things = 0, caught = 0;
                for (int frame = 0; frame < Second; ++frame) {
                    for (int i = 0; i < Characters; ++i) all[i].Observe(obs, i * Character.Sees);
                    agent.Act(Characters, obs, action);
                    for (int i = 0; i < Characters; ++i) {
                        int earned = all[i].MoveOn(action[i]);
                        things += earned * earned;
                        caught += earned > 0 ? 1 : 0;
                    }
                }
                return (double)caught / things;
            }
        }
    }

    private static void Train(PpoTrainer trainer, Character[] all, int frames, double slice) {
        var obs = new float[Characters * Character.Sees];
        var reward = new float[Characters];
        var action = new int[Characters];
        int things = 0, caught = 0, rollouts = 0;
        for (int i = 0; i < Characters; ++i) all[i].Observe(obs, i * Character.Sees);
        trainer.Begin(obs);
        for (int frame = 1; frame <= frames; ++frame) {
            trainer.Act(action);
            for (int i = 0; i < Characters; ++i) { // the world moves on; nobody's episode ends
                reward[i] = all[i].MoveOn(action[i]);
                all[i].Observe(obs, i * Character.Sees);
                things += reward[i] != 0 ? 1 : 0;
                caught += reward[i] > 0 ? 1 : 0;
            }
            trainer.Observe(obs, reward, null);
            if (trainer.Learn(slice)) ++rollouts;
            if (frame % Second != 0) continue;
            Console.WriteLine("  {0} frames: caught {1,3:0} % of {2}, rollouts {3}", frame, 100.0 * caught / things, things,
                              rollouts);
            things = caught = 0;
        }
    }
}
