// Ppo.cs - ppo.h for C#, as Unity, Godot, .NET and Mono run it: characters of a game learn while it plays.
//
// Put this file and the library into your project: `make shared` builds build/libppo.so (Linux), libppo.dylib (macOS), or
// with CC=x86_64-w64-mingw32-gcc ppo.dll (Windows). In Unity the library goes into Assets/Plugins/, in Godot beside the
// project's program. Game.cs is a whole program.
//
//     var world = new PpoWorld("catch", 4, "discrete 3");       // each character sees 4 numbers, and has 3 actions
//     var config = new PpoConfig();
//     config["num_envs"] = "16";                                // characters
//     config["total_steps"] = "1000000";
//     var agent = new PpoAgent(world, config);
//     var trainer = new PpoTrainer(world, config, agent);
//     trainer.Begin(obs);                                       // float[16 * 4]
//     each frame:
//         trainer.Act(action);                                  // int[16]
//         ... the game moves on ...
//         trainer.Observe(obs, reward, terminated, truncated, finalObs);
//         trainer.Learn(2.0);                                   // for about 2 ms, once there is enough to learn from
//     agent.Save("catch.safetensors");
//
// Arrays hold a row for each character, side by side. Errors are PpoException, with the library's sentence. An object may
// be used by one thread at a time. Dispose() frees what the library holds.
//
// License: that of ppo.h.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.Runtime.InteropServices;
using System.Text;

/// <summary>An error of the library: what was wrong, in one sentence.</summary>
public sealed class PpoException : Exception {
    public PpoException(string sentence) : base(sentence) { }
}

/// <summary>The functions of ppo_flat.h, and those of ppo.h that have such arguments.</summary>
internal static class PpoLibrary {
    private const string Name = "ppo";
    private const CallingConvention C = CallingConvention.Cdecl;

    [DllImport(Name, CallingConvention = C)] internal static extern IntPtr ppo_flat_version();
    [DllImport(Name, CallingConvention = C)] internal static extern IntPtr ppo_last_error();
    [DllImport(Name, CallingConvention = C)] internal static extern int ppo_flat_config_create(out IntPtr config);
    [DllImport(Name, CallingConvention = C)] internal static extern void ppo_flat_config_free(IntPtr config);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_flat_config_set(PpoConfig config, byte[] name, byte[] value);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_flat_config_get(PpoConfig config, byte[] name, byte[] text, UIntPtr size);
    [DllImport(Name, CallingConvention = C)] internal static extern int ppo_flat_config_preset(PpoConfig config, byte[] name);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_flat_setting(int index, IntPtr[] texts, double[] range, out int network);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_flat_env_create(byte[] name, int size, int actorSize, int[] shape, float byteScale,
                                                   byte[] actions, out IntPtr env);
    [DllImport(Name, CallingConvention = C)] internal static extern void ppo_flat_env_free(IntPtr env);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_agent_create(PpoWorld env, PpoConfig config, out IntPtr agent);
    [DllImport(Name, CallingConvention = C)] internal static extern void ppo_agent_free(IntPtr agent);
    [DllImport(Name, CallingConvention = C)] internal static extern int ppo_agent_save(PpoAgent agent, byte[] path);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_agent_load(byte[] path, PpoWorld env, out IntPtr agent);
    [DllImport(Name, CallingConvention = C, EntryPoint = "ppo_agent_load")]
    internal static extern int ppo_agent_load_any(byte[] path, IntPtr none, out IntPtr agent);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_flat_agent(PpoAgent agent, int[] sizes, float[] range, byte[] actions, byte[] name,
                                              UIntPtr size, IntPtr config);
    [DllImport(Name, CallingConvention = C)]
    internal static extern void ppo_flat_rng(ulong seed, uint index, uint[] numbers);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_flat_act(PpoAgent agent, int n, float[] obs, byte[] mask, float[] state, uint[] random,
                                            int[] choices, float[] box);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_flat_value(PpoAgent agent, int n, float[] obs, float[] state, float[] value);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_trainer_create(PpoWorld env, PpoConfig config, PpoAgent agent, out IntPtr trainer);
    [DllImport(Name, CallingConvention = C)] internal static extern void ppo_trainer_free(IntPtr trainer);
    [DllImport(Name, CallingConvention = C)] internal static extern int ppo_trainer_done(PpoTrainer trainer);
    [DllImport(Name, CallingConvention = C)] internal static extern long ppo_trainer_steps(PpoTrainer trainer);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_trainer_observe_many(PpoTrainer trainer, int n, int[] source, float[] obs, byte[] mask,
                                                        float[] reward, byte[] terminated, byte[] truncated,
                                                        float[] finalObs);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_trainer_act_many(PpoTrainer trainer, int n, int[] source, int[] choices, float[] box);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_flat_learn(PpoTrainer trainer, double milliseconds, out int learned);
    [DllImport(Name, CallingConvention = C)] internal static extern IntPtr ppo_flat_figure(int index);
    [DllImport(Name, CallingConvention = C)]
    internal static extern int ppo_flat_figures(PpoTrainer trainer, double[] figures);
    [DllImport(Name, CallingConvention = C)] internal static extern IntPtr ppo_flat_warning(PpoTrainer trainer);

    internal static void Check(int status) {
        if (status != 0) throw new PpoException(Text(ppo_last_error()));
    }

    /// <summary>A text as the library reads it; null stays null.</summary>
    internal static byte[] Bytes(string text) {
        return text == null ? null : Encoding.UTF8.GetBytes(text + "\0");
    }

    /// <summary>A text of the library's.</summary>
    internal static string Text(IntPtr at) {
        if (at == IntPtr.Zero) return null;
        int length = 0;
        while (Marshal.ReadByte(at, length) != 0) ++length;
        var bytes = new byte[length];
        Marshal.Copy(at, bytes, 0, length);
        return Encoding.UTF8.GetString(bytes);
    }

    /// <summary>A text that the library has written into an array.</summary>
    internal static string Text(byte[] bytes) {
        return Encoding.UTF8.GetString(bytes, 0, Array.IndexOf(bytes, (byte)0));
    }

    /// <summary>An array has at least as many numbers; null may be given where the call allows it.</summary>
    internal static void Room(Array array, long count, string name, bool optional = false) {
        if (array == null && !optional) throw new PpoException(name + " is null");
        if (array != null && array.LongLength < count)
            throw new PpoException(name + " has " + array.LongLength + " numbers, it needs " + count);
    }
}

/// <summary>Something that the library holds until Dispose(), or until nobody uses it.</summary>
public abstract class PpoHandle : SafeHandle {
    internal PpoHandle() : base(IntPtr.Zero, true) { }
    public override bool IsInvalid { get { return handle == IntPtr.Zero; } }

    /// <summary>Takes over what a function of the library has made, if it has.</summary>
    internal void Take(int status, IntPtr made) {
        SetHandle(made);
        PpoLibrary.Check(status);
    }
}

/// <summary>The settings of ppo.h, by their names: config["gamma"] = "0.9".</summary>
public sealed class PpoConfig : PpoHandle {
    /// <param name="preset">Known settings to start from, such as "a2c"; null: the defaults.</param>
    public PpoConfig(string preset = null) {
        IntPtr made;
        Take(PpoLibrary.ppo_flat_config_create(out made), made);
        if (preset != null) PpoLibrary.Check(PpoLibrary.ppo_flat_config_preset(this, PpoLibrary.Bytes(preset)));
    }

    protected override bool ReleaseHandle() {
        PpoLibrary.ppo_flat_config_free(handle);
        return true;
    }

    public string this[string name] {
        get {
            var text = new byte[512];
            PpoLibrary.Check(PpoLibrary.ppo_flat_config_get(this, PpoLibrary.Bytes(name), text, (UIntPtr)text.Length));
            return PpoLibrary.Text(text);
        }
        set { PpoLibrary.Check(PpoLibrary.ppo_flat_config_set(this, PpoLibrary.Bytes(name), PpoLibrary.Bytes(value))); }
    }

    /// <summary>One setting as a number, whatever the culture writes numbers like.</summary>
    public void Set(string name, double value) { this[name] = value.ToString("R", CultureInfo.InvariantCulture); }

    /// <summary>A line for each setting: its name, what it does, and its default.</summary>
    public static IEnumerable<string> Describe() {
        var texts = new IntPtr[5];
        int network;
        for (int i = 0; PpoLibrary.ppo_flat_setting(i, texts, null, out network) == 0; ++i)
            yield return PpoLibrary.Text(texts[0]) + ": " + PpoLibrary.Text(texts[4]) + " [" + PpoLibrary.Text(texts[2]) + "]";
    }
}

/// <summary>What a character sees and can do.</summary>
public sealed class PpoWorld : PpoHandle {
    internal readonly int Size;

    /// <param name="name">Of the task, kept in files; may be null.</param>
    /// <param name="obsSize">Numbers that a character sees.</param>
    /// <param name="actions">"discrete 3", "multi-discrete 3,2", "multi-binary 4", or "box 2 -1 1": 2 numbers in -1 .. 1.</param>
    /// <param name="actorObs">The policy sees the first of the numbers, its critic all; 0: both see all.</param>
    /// <param name="shape">{channels, height, width} of a picture that comes first, for the setting conv; may be null.</param>
    /// <param name="byteScale">Above 0: the picture's numbers are whole ones from 0 to 255 times this.</param>
    public PpoWorld(string name, int obsSize, string actions, int actorObs = 0, int[] shape = null, float byteScale = 0) {
        if (shape != null) PpoLibrary.Room(shape, 3, "shape");
        Size = obsSize;
        IntPtr made;
        Take(PpoLibrary.ppo_flat_env_create(PpoLibrary.Bytes(name), obsSize, actorObs, shape, byteScale,
                                            PpoLibrary.Bytes(actions), out made), made);
    }

    protected override bool ReleaseHandle() {
        PpoLibrary.ppo_flat_env_free(handle);
        return true;
    }
}

/// <summary>A policy: it acts, is trained by a PpoTrainer, and lives in files.</summary>
public sealed class PpoAgent : PpoHandle {
    private readonly uint[] random = new uint[11];
    private int[] sizes;

    /// <summary>An untrained one.</summary>
    public PpoAgent(PpoWorld world, PpoConfig config) {
        IntPtr made;
        Take(PpoLibrary.ppo_agent_create(world, config, out made), made);
        Measure();
    }

    /// <summary>One from a file, of any program with ppo.h. world null: whatever it was made for.</summary>
    public PpoAgent(string path, PpoWorld world = null) {
        IntPtr made;
        byte[] bytes = PpoLibrary.Bytes(path);
        Take(world == null ? PpoLibrary.ppo_agent_load_any(bytes, IntPtr.Zero, out made)
                           : PpoLibrary.ppo_agent_load(bytes, world, out made), made);
        Measure();
    }

    private void Measure() {
        sizes = new int[5];
        PpoLibrary.Check(PpoLibrary.ppo_flat_agent(this, sizes, null, null, null, UIntPtr.Zero, IntPtr.Zero));
        Seed(1);
    }

    protected override bool ReleaseHandle() {
        PpoLibrary.ppo_agent_free(handle);
        return true;
    }

    /// <summary>Numbers that it sees, numbers or choices in an action, options in a mask, numbers of a state.</summary>
    public int ObsSize { get { return sizes[1]; } }
    public int ActionSize { get { return sizes[2]; } }
    public int MaskSize { get { return sizes[3]; } }
    public int StateSize { get { return sizes[4]; } }

    /// <summary>Begins the random numbers of sampled actions anew.</summary>
    public void Seed(ulong seed) { PpoLibrary.ppo_flat_rng(seed, 0, random); }

    public void Save(string path) { PpoLibrary.Check(PpoLibrary.ppo_agent_save(this, PpoLibrary.Bytes(path))); }

    /// <summary>The actions of n characters: into choices, or into numbers if the actions are a box.</summary>
    /// <param name="sample">false: the most likely ones.</param>
    /// <param name="mask">0 for each illegal option; null: all are legal.</param>
    /// <param name="state">Of a recurrent policy, read and written: zeros where an episode begins; else null.</param>
    public void Act(int n, float[] obs, int[] choices, float[] numbers = null, bool sample = false, byte[] mask = null,
                    float[] state = null) {
        PpoLibrary.Room(obs, (long)n * ObsSize, "obs");
        PpoLibrary.Room(choices, (long)n * ActionSize, "choices", true);
        PpoLibrary.Room(numbers, (long)n * ActionSize, "numbers", true);
        PpoLibrary.Room(mask, (long)n * MaskSize, "mask", true);
        PpoLibrary.Room(state, (long)n * StateSize, "state", StateSize == 0);
        PpoLibrary.Check(PpoLibrary.ppo_flat_act(this, n, obs, mask, state, sample ? random : null, choices, numbers));
    }

    /// <summary>What the critic expects of n situations, each of all numbers that it sees.</summary>
    public void Value(int n, float[] obs, float[] value, float[] state = null) {
        PpoLibrary.Room(obs, (long)n * sizes[0], "obs");
        PpoLibrary.Room(value, n, "value");
        PpoLibrary.Room(state, (long)n * StateSize, "state", StateSize == 0);
        PpoLibrary.Check(PpoLibrary.ppo_flat_value(this, n, obs, state, value));
    }
}

/// <summary>Trains a policy from what the characters of a game see, do and earn.</summary>
public sealed class PpoTrainer : PpoHandle {
    private readonly PpoWorld world;
    private readonly PpoAgent agent;
    private readonly int count;
    private double[] figures;

    /// <summary>For as many characters as config["num_envs"].</summary>
    public PpoTrainer(PpoWorld world, PpoConfig config, PpoAgent agent) {
        this.world = world;
        this.agent = agent;
        count = int.Parse(config["num_envs"], CultureInfo.InvariantCulture);
        IntPtr made;
        bool held = false;
        Take(PpoLibrary.ppo_trainer_create(world, config, agent, out made), made);
        world.DangerousAddRef(ref held); // the library borrows these two: they are freed after the trainer
        agent.DangerousAddRef(ref held);
    }

    protected override bool ReleaseHandle() {
        PpoLibrary.ppo_trainer_free(handle);
        world.DangerousRelease();
        agent.DangerousRelease();
        return true;
    }

    /// <summary>Episodes begin: of all characters, or of those that are named, with a row each.</summary>
    public void Begin(float[] obs, byte[] mask = null, int[] characters = null) {
        int n = Rows(characters);
        Check(n, obs, mask);
        PpoLibrary.Check(PpoLibrary.ppo_trainer_observe_many(this, n, characters, obs, mask, null, null, null, null));
    }

    /// <summary>What all characters do now: into choices, or into numbers if the actions are a box.</summary>
    public void Act(int[] choices, float[] numbers = null, int[] characters = null) {
        int n = Rows(characters);
        PpoLibrary.Room(choices, (long)n * agent.ActionSize, "choices", true);
        PpoLibrary.Room(numbers, (long)n * agent.ActionSize, "numbers", true);
        PpoLibrary.Check(PpoLibrary.ppo_trainer_act_many(this, n, characters, choices, numbers));
    }

    /// <summary>What followed. Where an episode ended, by itself (terminated) or by the game's time limit (truncated),
    /// finalObs has what the character saw last, and obs what it sees as its next episode begins. finalObs null: obs has
    /// the former, and the next call the latter.</summary>
    public void Observe(float[] obs, float[] reward, byte[] terminated, byte[] truncated = null, float[] finalObs = null,
                        byte[] mask = null, int[] characters = null) {
        int n = Rows(characters);
        Check(n, obs, mask);
        PpoLibrary.Room(reward, n, "reward");
        PpoLibrary.Room(terminated, n, "terminated", true);
        PpoLibrary.Room(truncated, n, "truncated", true);
        PpoLibrary.Room(finalObs, (long)n * world.Size, "finalObs", true);
        PpoLibrary.Check(PpoLibrary.ppo_trainer_observe_many(this, n, characters, obs, mask, reward, terminated, truncated,
                                                             finalObs));
    }

    /// <summary>Learns for about that many milliseconds, if there is enough to learn from; 0: until it is done. True: an
    /// iteration is complete, with new figures.</summary>
    public bool Learn(double milliseconds) {
        int learned;
        PpoLibrary.Check(PpoLibrary.ppo_flat_learn(this, milliseconds, out learned));
        if (learned != 0) figures = null;
        return learned != 0;
    }

    public bool Done { get { return PpoLibrary.ppo_trainer_done(this) != 0; } }
    public long Steps { get { return PpoLibrary.ppo_trainer_steps(this); } }

    /// <summary>What seems to go wrong, and what to try; "" if nothing does.</summary>
    public string Warning { get { return PpoLibrary.Text(PpoLibrary.ppo_flat_warning(this)); } }

    /// <summary>A figure of the latest iteration, by its name in ppo_progress, such as "mean_return".</summary>
    public double Figure(string name) {
        int i = 0;
        for (string at; (at = PpoLibrary.Text(PpoLibrary.ppo_flat_figure(i))) != name; ++i)
            if (at == null) throw new PpoException("there is no figure \"" + name + "\"");
        if (figures == null) {
            int n = i;
            while (PpoLibrary.ppo_flat_figure(n) != IntPtr.Zero) ++n;
            var all = new double[n];
            PpoLibrary.Check(PpoLibrary.ppo_flat_figures(this, all));
            figures = all;
        }
        return figures[i];
    }

    private int Rows(int[] characters) { return characters == null ? count : characters.Length; }

    private void Check(int n, float[] obs, byte[] mask) {
        PpoLibrary.Room(obs, (long)n * world.Size, "obs");
        PpoLibrary.Room(mask, (long)n * agent.MaskSize, "mask", true);
    }
}
