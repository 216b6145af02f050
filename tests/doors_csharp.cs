// doors_csharp.cs - examples/csharp/Ppo.cs: settings, trainings, policies in files, and what it refuses. Reports in TAP.
using System;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Threading;

internal static class Test {
    private static int number, failures;

    private static void Holds(bool holds, string what) {
        if (!holds) throw new Exception(what);
    }

    private static void Refuses(string words, Action call) {
        try {
            call();
        } catch (PpoException error) {
            foreach (string word in words.Split('|'))
                Holds(error.Message.Contains(word), "\"" + error.Message + "\" does not name " + word);
            return;
        }
        throw new Exception("it was not refused: " + words);
    }

    private static void Try(string name, Action test) {
        ++number;
        try {
            test();
            Console.WriteLine("ok {0} - {1}", number, name);
        } catch (Exception error) {
            ++failures;
            Console.WriteLine("not ok {0} - {1}\n# {2}", number, name, error.ToString().Replace("\n", "\n# "));
        }
    }

    private static PpoConfig Small(int characters) {
        var config = new PpoConfig();
        foreach (string setting in ("rollout_steps=8 minibatch_size=8 epochs=1 hidden=8 total_steps=" + 64 * characters).Split(' '))
            config[setting.Split('=')[0]] = setting.Split('=')[1];
        config.Set("num_envs", characters);
        return config;
    }

    private static void SettingsAreNumbersInEveryCulture() {
        var before = Thread.CurrentThread.CurrentCulture;
        Thread.CurrentThread.CurrentCulture = CultureInfo.GetCultureInfo("de-DE");
        try {
            var config = new PpoConfig();
            config.Set("gamma", 0.95);
            Holds(config["gamma"] == "0.95", config["gamma"]);
            Holds(new PpoConfig("a2c")["num_envs"] == "16", "preset");
            Holds(PpoConfig.Describe().Any(line => line.StartsWith("gae_lambda: ") && line.EndsWith("[0.95]")), "describe");
            Holds(PpoConfig.Describe().Count() > 40, "count");
            Refuses("no setting|gama", () => config["gama"] = "1");
            Refuses("gamma is 2", () => config.Set("gamma", 2));
            Refuses("a2c", () => new PpoConfig("unknown"));
        } finally {
            Thread.CurrentThread.CurrentCulture = before;
        }
    }

    // A count of steps, with episodes of 3; both ways to begin the next one train to the same weights, seen by their values.
    private static float[] Trained(bool later, out PpoAgent agent) {
        var world = new PpoWorld("count", 1, "discrete 2");
        var config = Small(1);
        agent = new PpoAgent(world, config);
        var trainer = new PpoTrainer(world, config, agent);
        float[] obs = {0}, last = {0}, reward = {0};
        byte[] terminated = {0}, none = {0};
        var action = new int[1];
        int t = 0, iterations = 0;
        bool over = false;
        trainer.Begin(obs);
        while (!trainer.Done) {
            trainer.Act(action);
            if (over) {
                t = 0;
                obs[0] = 0;
                over = false;
                reward[0] = float.NaN; // not read
            } else {
                reward[0] = action[0];
                obs[0] = ++t;
                over = t == 3;
                terminated[0] = (byte)(over ? 1 : 0);
                if (over && !later) {
                    last[0] = obs[0];
                    obs[0] = t = 0;
                    over = false;
                }
            }
            trainer.Observe(obs, reward, terminated, none, later ? null : last);
            if (trainer.Learn(0)) Holds(trainer.Figure("steps") == 8 * ++iterations, "figures of each iteration");
        }
        Holds(trainer.Steps == 64 && trainer.Figure("steps") == 64 && trainer.Figure("iteration") == 8, "figures");
        Holds(trainer.Figure("mean_length") == 3 && trainer.Figure("first_ratio_max") == 1, "mean_length");
        Holds(trainer.Warning != null, "warning");
        Refuses("no figure", () => trainer.Figure("returns"));
        var value = new float[4];
        agent.Value(4, new float[] {0, 1, 2, 3}, value);
        trainer.Dispose();
        return value;
    }

    private static void EpisodesBeginInBothWays() {
        PpoAgent one, other;
        float[] now = Trained(false, out one), later = Trained(true, out other);
        Holds(now.SequenceEqual(later) && now.Any(v => v != 0), string.Join(" ", now) + " / " + string.Join(" ", later));
    }

    private static void PoliciesLiveInFiles(string folder) {
        var world = new PpoWorld("box", 3, "box 2 -1 1");
        var config = Small(2);
        config["recurrent"] = "4";
        config["sequence_steps"] = "4";
        var agent = new PpoAgent(world, config);
        string path = Path.Combine(folder, "policy-\u00e4.safetensors"); // a name beyond ASCII
        agent.Save(path);
        Holds(File.Exists(path), path);
        var loaded = new PpoAgent(path);
        var again = new PpoAgent(path, world);
        Holds(loaded.ObsSize == 3 && loaded.ActionSize == 2 && loaded.MaskSize == 0 && loaded.StateSize == 4, "sizes");
        float[] obs = {0.1f, 0.2f, 0.3f, -1, 0, 1}, a = new float[4], b = new float[4], state = new float[8], same = new float[8];
        for (int k = 0; k < 2; ++k) {
            agent.Act(2, obs, null, a, k == 1, null, state);
            loaded.Act(2, obs, null, b, k == 1, null, same);
            Holds(a.SequenceEqual(b) && state.SequenceEqual(same) && state.Any(s => s != 0), "actions");
        }
        agent.Act(2, obs, null, a, false, null, new float[8]);
        agent.Act(2, obs, null, b, false, null, new float[8]);
        Holds(a.SequenceEqual(b), "the most likely actions");
        agent.Seed(7);
        loaded.Seed(8);
        agent.Act(2, obs, null, a, true, null, state);
        loaded.Act(2, obs, null, b, true, null, same);
        Holds(!a.SequenceEqual(b), "seeds");
        Refuses("nowhere", () => new PpoAgent(Path.Combine(folder, "nowhere.safetensors")));
        Refuses("3|4", () => new PpoAgent(path, new PpoWorld("other", 4, "box 2 -1 1")));
        GC.KeepAlive(again);
    }

    private static void MasksAreKept() {
        var world = new PpoWorld(null, 1, "discrete 3");
        var config = Small(2);
        var agent = new PpoAgent(world, config);
        var trainer = new PpoTrainer(world, config, agent);
        var obs = new float[2];
        byte[] mask = {0, 1, 0, 1, 0, 0};
        var action = new int[2];
        trainer.Begin(obs, mask);
        for (int t = 0; t < 20; ++t) {
            trainer.Act(action);
            Holds(action[0] == 1 && action[1] == 0, action[0] + " " + action[1]);
            trainer.Observe(obs, new float[2], null, null, null, mask);
        }
        agent.Act(2, obs, action, null, true, mask);
        Holds(action[0] == 1 && action[1] == 0, "agent");
        int[] second = {1};
        trainer.Act(action, null, second);
        Holds(action[0] == 0, "of one character");
    }

    private static void WhatCannotBeIsRefused() {
        var world = new PpoWorld("x", 2, "discrete 3");
        var config = Small(2);
        var agent = new PpoAgent(world, config);
        var trainer = new PpoTrainer(world, config, agent);
        var obs = new float[4];
        var action = new int[2];
        Refuses("action space|discrete", () => new PpoWorld("x", 2, "discreet 3"));
        Refuses("obs has 3 numbers, it needs 4", () => trainer.Begin(new float[3]));
        trainer.Begin(obs);
        Refuses("choices has 1", () => trainer.Act(new int[1]));
        trainer.Act(action);
        Refuses("reward is null", () => trainer.Observe(obs, null, null));
        Refuses("finalObs has 2", () => trainer.Observe(obs, new float[2], new byte[2], null, new float[2]));
        Refuses("observation[1] is NaN", () => trainer.Observe(new float[] {0, float.NaN, 0, 0}, new float[2], null));
        Refuses("mask has 3", () => agent.Act(2, obs, action, null, false, new byte[3]));
        Refuses("shape has 2", () => new PpoWorld("x", 2, "discrete 3", 0, new int[2]));
        config["gsde"] = "yes";
        Refuses("gsde", () => new PpoAgent(world, config));
        world.Dispose(); // the trainer keeps what it borrows
        agent.Dispose();
        while (!trainer.Done) {
            trainer.Observe(obs, new float[2], null);
            trainer.Learn(0);
            trainer.Act(action);
        }
        trainer.Dispose();
        trainer.Dispose();
        try {
            trainer.Learn(0);
            Holds(false, "a trainer that was disposed of learned");
        } catch (ObjectDisposedException) {
        }
    }

    private static int Main(string[] args) {
        Try("settings_are_numbers_in_every_culture", SettingsAreNumbersInEveryCulture);
        Try("episodes_begin_in_both_ways", EpisodesBeginInBothWays);
        Try("policies_live_in_files", () => PoliciesLiveInFiles(args[0]));
        Try("masks_are_kept", MasksAreKept);
        Try("what_cannot_be_is_refused", WhatCannotBeIsRefused);
        for (int k = 0; k < 3; ++k) { // finalizers, in any order
            PpoAgent agent;
            Trained(false, out agent);
            agent = null;
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
        Console.WriteLine("1..{0}", number);
        return failures;
    }
}
