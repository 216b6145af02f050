#!/usr/bin/env python3
"""make mutants - plants N small faults in the library, one at a time, and sees whether the tests notice.

    tests/mutants.py [N [SEED]]     N mutants, chosen by the seed; what was tried before is not tried again
    tests/mutants.py try FILE       the mutants of a file like equivalent_mutants.txt

A mutant is a line of the sections below or of a companion with an operator, a number, a condition or a statement
changed. tcc compiles the library in a tenth of a second (without it: the compiler of CC, in seconds). The kernels and
the tests are compiled once and linked. Which tests run a line is known from a library that writes it down
(mutants_run.c); these run, the shortest first, until one fails, crashes or does not end. Those that have memory refused
then run once more as in make coverage and make test-long, with each array of an arena refused. Policies as C are
compiled and asked, too (export.sh). No mutant makes an array larger, which is the same, nor changes the size of a text's
array at all, as of char name[64]: of a smaller one, unless a text fills it, nobody hears. Nor is what is said where a
companion is missing: here all are there, and compile.sh has a program without them.

equivalent_mutants.txt has mutants that no test can tell from the library, each with its reason. All results are in
build/mutants/. The exit status is 1 below 95 % of those that are not equivalent.
"""
import collections, hashlib, json, os, re, resource, shutil, signal, subprocess, sys, time

SECTIONS = [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 21, 22, 23]
COMPANIONS = ['bpe', 'chat', 'check', 'conv', 'explain', 'export', 'flat', 'gguf', 'group', 'gru', 'hub', 'judge', 'methods', 'onnx', 'player',
              'report', 'resume', 'teach']
LEFT_OUT = ['test_files', 'test_math_tuned', 'test_mujoco']  # with a library of their own, or one that may be missing
LEAST = 95
SHORT, LONG, EVER = 0.2, 10, 1e9  # seconds: tests of the first, second and third round

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(TOP, 'build', 'mutants')
TREE = os.path.join(BUILD, 'tree')
CC = os.environ.get('CC', 'gcc')
CC = 'gcc' if CC == 'cc' else CC
TCC = shutil.which('tcc') and 'tcc -w'
COMMON = '-w -DPPO_TEST_SMALL -DPPO_NO_THREADS -I. -Itests/mpi_emulation' \
         ' -DPPO_TEST_FRAMES -fno-omit-frame-pointer'  # so that tests know where an allocation is asked for


def read(path):
    with open(path, errors='surrogateescape') as f:
        return f.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', errors='surrogateescape') as f:
        f.write(text)


def say(text):
    print(text, flush=True)


# --- the library, with its private functions open ---------------------------------------------------------------------

# The implementation without `static`, so that functions of a mutant take the place of those the tests were compiled
# with; the vector kernels come from an object of their own. The lines stay where they are.
def opened(name, text):
    lines = text.split('\n')
    inside = False
    for i, line in enumerate(lines):
        inside = inside or re.match(r'#if \(?defined\(PPO_IMPLEMENTATION\)', line) is not None
        if not inside:
            continue
        line = re.sub(r'^(PPO__BOTH )?(static |PPO__RARE |PPO__TINY )(inline )?', r'\1', line)
        line = re.sub(r'^(#define PPO__(?:RARE|TINY|THREAD_LOCAL)) .*', r'\1', line)
        line = line.replace('usable[count++] = &ppo__plain_kernels;',
                            'extern const ppo__kernels *kernels_of_gcc(const char *); return kernels_of_gcc(name);')
        line = line.replace('(type, table)         static const type table', '(type, table) const type table')
        line = re.sub(r'^(#define PPO__COMPANION_IS\(.*\)) +static const', r'\1 const', line)
        lines[i] = line
    return '\n'.join(lines)


def headers():
    return ['ppo.h'] + ['examples/companions/ppo_%s.h' % c for c in COMPANIONS]


LIBRARY = '''#include <math.h>
#include <unistd.h>
#define fsync(descriptor) ((void)(descriptor), 0)
#include "tests/pages.h"
#define PPO_IMPLEMENTATION
#include "ppo.h"
#undef fsync
''' + ''.join('#include "examples/companions/ppo_%s.h"\n' % c for c in COMPANIONS)

KERNELS = '''#define PPO_STATIC
#define PPO_VECTOR16
#define PPO_IMPLEMENTATION
#include "%s/ppo.h"
const ppo__kernels *kernels_of_gcc(const char *name) { return ppo__kernels_find(name); }
''' % TOP


def used():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def run(command, seconds=600, cwd=None, processor=600):
    """The status and the output of a command; 124 where it did not end within these seconds."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (int(processor) + 1, int(processor) + 1))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    p = subprocess.Popen(command, shell=isinstance(command, str), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         stdin=subprocess.DEVNULL, cwd=cwd or TREE, start_new_session=True, preexec_fn=limit)
    try:
        out = p.communicate(timeout=seconds)[0]
        status = p.returncode
    except subprocess.TimeoutExpired:
        out, status = b'', 124
    try:
        os.killpg(p.pid, signal.SIGKILL)  # children of a mutant
    except ProcessLookupError:
        pass
    if status == 124:
        p.communicate()
    return status, out.decode(errors='replace')


def must(command):
    status, out = run(command, 6000)
    if status:
        sys.exit('%s\n%s' % (command, out))


def sources():
    found = ['ppo.h', 'Makefile']
    for folder in ['tests', 'examples', 'bench']:
        for place, _, files in os.walk(os.path.join(TOP, folder)):
            found += [os.path.relpath(os.path.join(place, f), TOP) for f in files if not f.endswith('.pyc')]
    return sorted(found)


def copy_tree():
    shutil.rmtree(TREE, ignore_errors=True)
    home = os.path.join(BUILD, 'home')
    os.makedirs(home, exist_ok=True)
    for f in sources():
        target = os.path.join(TREE, f)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if re.match(r'tests/.*\.[ch]$', f):
            text = read(os.path.join(TOP, f)).replace('"/tmp/', '"%s/' % home)
            text = re.sub(r'^(__attribute__\(\(weak\)\) )int main\(', r'static int unused_main(', text, flags=re.M)
            write(target, text)
        elif f in headers():
            write(target, opened(f, read(os.path.join(TOP, f))))
        elif os.path.exists(os.path.join(TOP, f)):
            shutil.copy(os.path.join(TOP, f), target)
    write(os.path.join(TREE, 'library.c'), LIBRARY)
    write(os.path.join(TREE, 'kernels.c'), KERNELS)
    os.makedirs(os.path.join(TREE, 'build', 'abuse'), exist_ok=True)
    must('awk -f tests/abuse.awk tests/abuse.txt ppo.h examples/companions/*.h >build/abuse/calls.h')
    must('awk -f tests/defaults.awk ppo.h examples/companions/*.h >build/abuse/defaults.h')


def fingerprint(files):
    h = hashlib.md5()
    for f in sorted(files):
        h.update(f.encode())
        h.update(read(os.path.join(TOP, f)).encode(errors='surrogateescape'))
    return h.hexdigest()


def golden(program):
    text = read(os.path.join(TOP, 'tests', program + '.c'))
    return ['tests/' + f for f in re.findall(r'^#include "(golden/\w+\.h)"', text, re.M)]


def together():
    return re.findall(r'#include "(test_\w+)\.c"', read(os.path.join(TOP, 'tests/private.c')))


def programs():
    found = sorted(f[6:-2] for f in sources() if re.match(r'tests/test_\w+\.c$', f))
    return [p for p in found if p not in LEFT_OUT]


STB = ''


def compile_library():
    """Of the mutant that is in the tree. 0: compiled"""
    if TCC:
        return run('%s %s %s -c library.c -o ../m.o' % (TCC, COMMON, STB), 60)[0]
    return run('%s -O0 -fPIC %s -c library.c -o ../m.o' % (CC, COMMON), 300)[0]


def link(library, program):
    libtcc = re.findall(r'/\S*libtcc1\.a', run('tcc -print-search-dirs')[1])[:1] if TCC else []
    return '%s -no-pie ../fixed.o %s %s -o %s -lcmocka -lm -lpthread' % (CC, library, ' '.join(libtcc), program)


def build():
    """The objects that stay, and which tests run which line. What did not change since the last time is kept:
    {'programs': {name: fingerprint}, 'tests': {name: [[test, seconds, [line, ...]], ...]}}"""
    global STB
    for d in ['/usr/include/stb', '/usr/local/include/stb']:
        if os.path.exists(d + '/stb_ds.h'):
            STB = '-I' + d
    own = {p: fingerprint(['tests/%s.c' % p] + golden(p)) for p in programs()}
    shared = fingerprint(['tests/private.c', 'tests/mutants_run.c'] +
                         [f for f in sources() if re.match(r'(ppo|(tests|examples/.*)/\w+)\.h$', f)])
    path = os.path.join(BUILD, 'state.json')
    state = json.load(open(path)) if os.path.exists(path) else {}
    if state.get('shared') != shared:
        state = {'shared': shared, 'programs': {}, 'tests': {}, 'objects': {}}
    objects = state['objects']
    changed = [p for p in own if objects.get(p) != own[p]]
    home = os.path.join(BUILD, 'home') # where tests that were ended left their files
    for f in os.listdir(home) if os.path.exists(home) else []:
        if os.path.getmtime(os.path.join(home, f)) < time.time() - 3600:
            shutil.rmtree(os.path.join(home, f), ignore_errors=True)
    if changed or set(objects) != set(own):
        say('compiles the tests ...')
        copy_tree()
        write(os.path.join(TREE, 'tests', 'programs.h'), ''.join('PROGRAM(%s)\n' % p for p in own))
        if not objects:
            must('%s -O2 -w -I. -c kernels.c -o ../kernels.o' % CC)
            must('%s -O0 -g1 -fPIC -DPPO_NO_SIMD -fsanitize-coverage=trace-pc %s -c library.c -o ../covered.o' % (CC, COMMON))
        if set(changed) & set(together()):
            must('%s -O1 -fPIC -DPPO_NO_SIMD %s -c tests/private.c -o ../private.o && objcopy --weaken ../private.o' %
                 (CC, COMMON))
        must('%s -O1 -w -Itests -c tests/mutants_run.c -o ../mutants_run.o' % CC)
        must('%s -O1 -fPIC -DPPO_NO_SIMD %s -c tests/export.c -o ../export.o && objcopy --weaken ../export.o' % (CC, COMMON))
        for p in changed:
            if p not in together():
                must('%s -O1 %s -c tests/%s.c -o ../%s.o' % (CC, COMMON, p, p))
                must('objcopy --redefine-sym main=%s_main --keep-global-symbol=%s_main ../%s.o' % (p, p, p))
        must('ld -r ../%s.o -o ../fixed.o' % '.o ../'.join(['kernels', 'private', 'mutants_run'] +
                                                         [p for p in own if p not in together()]))
        must(link('../covered.o', '../covered'))
        if compile_library():
            sys.exit('the library does not compile')
        must(link('../m.o', '../run'))
        shutil.copy(os.path.join(BUILD, 'm.o'), os.path.join(BUILD, 'base.o'))
        if not exports():
            sys.exit('tests/export.sh fails here')
        state['objects'] = own
        write(path, json.dumps(state))
    todo = [p for p in own if state['programs'].get(p) != own[p]]
    if todo:
        say('looks which tests run which lines ...')
        blocks = lines_of_blocks()
    for p in todo:
        state['tests'][p] = lines_of_tests(p, blocks)
        state['programs'][p] = own[p]
        write(path, json.dumps(state))
    for p in [p for p in state['programs'] if p not in own]:
        del state['programs'][p], state['tests'][p]
    return state


def lines_of_blocks():
    """{how far after the beginning of the code a block of the library begins: its lines}"""
    dump = run("objdump -d ../covered | grep -A1 'call.*<__sanitizer_cov_trace_pc>'")[1].split('\n')
    after = [b for a, b in zip(dump, dump[1:]) if '<__sanitizer_cov_trace_pc>' in a]  # it may be a call itself
    blocks = sorted(int(a, 16) for a in re.findall(r'^\s*([0-9a-f]+):', '\n'.join(after), re.M))
    table = run('objdump --dwarf=decodedline ../covered')[1]
    base = int(re.search(r'([0-9a-f]+) . __executable_start', run('nm ../covered')[1]).group(1), 16)
    rows = []
    names = {os.path.basename(h): h for h in headers()}
    for name, line, address in re.findall(r'^(\S+)\s+(\d+)\s+0x([0-9a-f]+)', table, re.M):
        if name in names:
            rows.append((int(address, 16), names[name], int(line)))
    rows.sort()
    lines_of = collections.defaultdict(set)  # of the block that begins at an address
    k, last = 0, None
    for b, start in enumerate(blocks):
        end = blocks[b + 1] - 5 if b + 1 < len(blocks) else start + 4096
        while k < len(rows) and rows[k][0] < start - 5:
            last = rows[k]
            k += 1
        j = k
        if last and (k == len(rows) or rows[k][0] > start):
            lines_of[start].add(last[1:])
        while j < len(rows) and rows[j][0] < end:
            lines_of[start].add(rows[j][1:])
            last = rows[j]
            j += 1
        k = j
    return {start - base: found for start, found in lines_of.items()}


def lines_of_tests(program, blocks):
    """[[test, seconds, [line, ...]], ...], without the tests that fail by themselves, or without threads"""
    out, found = os.path.join(BUILD, 'ran'), []
    for test in run(['../run', 'list', program])[1].split():
        os.environ['COVERAGE'] = out
        status = run(['../covered', program, test], 120)[0]  # without threads some wait for one another
        del os.environ['COVERAGE']
        began = used()
        status = status or run(['../run', program, test], 120)[0]
        if status:
            say('left out, as it fails here: %s: %s' % (program, test))
            continue
        seconds, lines = round(used() - began, 3), set()
        with open(out, 'rb') as f:
            for m in re.finditer(b'\1', f.read()):
                lines.update('%s:%d' % l for l in blocks.get(m.start(), ()))
        found.append([test, seconds, sorted(lines)])
    return found


# --- mutants ----------------------------------------------------------------------------------------------------------

def masked(lines):
    """The lines with blanks in place of comments, texts and what the preprocessor reads."""
    result, comment, directive = [], False, False
    for line in lines:
        out, j = '', 0
        while j < len(line):
            if comment:
                k = line.find('*/', j)
                k, comment = (len(line), True) if k < 0 else (k + 2, False)
            elif line.startswith('/*', j):
                comment, k = True, j
            elif line.startswith('//', j):
                k = len(line)
            elif line[j] in '"\'':
                k = j + 1
                while k < len(line) and line[k] != line[j]:
                    k += 2 if line[k] == '\\' else 1
                k = min(k + 1, len(line))
            else:
                out += line[j]
                j += 1
                continue
            out += ' ' * (k - j)
            j = k
        if directive or out.lstrip().startswith('#'):
            directive = line.endswith('\\')
            out = ''
        result.append(out)
    return result


def closing(text, at):
    """Where the parenthesis that opens at `at` closes; -1: not in this line."""
    depth = 0
    for i in range(at, len(text)):
        depth += {'(': 1, ')': -1}.get(text[i], 0)
        if depth == 0:
            return i
    return -1


SIMPLE = re.compile(r'^(if \(.*\) )?(\+\+|--)?[\w.>\[\]*()-]+( [+*/|&^-]?= .*|\(.*\)|\+\+|--)?;$')
DECLARES = re.compile(r'^((return|static|const|int|unsigned|float|double|char|size_t|long|else|for|while|do|case|default|'
                      r'goto|break|typedef|struct|enum|u?int\d+_t)\b|ppo_\w+ +\*?\w+( =|;|\[|,))')


def mutations(line, code):
    """The ways to change a line, without those that the compiler refuses."""
    found = []

    def put(a, b, new):
        found.append(line[:a] + new + line[b:])

    for m in re.finditer(r'(?<![<>=!&|+\-*/])(<=|>=|==|!=|<|>)(?![<>=])', code):
        if m.start() and code[m.start() - 1] == '-':
            continue
        for new in {'<': ['<=', '>'], '>': ['>=', '<'], '<=': ['<', '>'], '>=': ['>', '<'], '==': ['!='],
                    '!=': ['==']}[m.group(1)]:
            put(m.start(), m.end(), new)
    for m in re.finditer(r' ([-+*/%]) (?=\S)', code):
        put(m.start() + 1, m.end() - 1, {'+': '-', '-': '+', '*': '/', '/': '*', '%': '+'}[m.group(1)])
    for m in re.finditer(r' (&&|\|\|) ', code):
        put(m.start() + 1, m.end() - 1, '||' if m.group(1) == '&&' else '&&')
    for m in re.finditer(r'!(?=[a-z_(*])', code):
        put(m.start(), m.end(), '')
    for m in re.finditer(r'(?<![\w.])(\d+)(?![\w.])', code):
        put(m.start(), m.end(), str(int(m.group(1)) + 1))
        if int(m.group(1)):
            put(m.start(), m.end(), str(int(m.group(1)) - 1))
    for m in re.finditer(r'(?<![\w.])(\d+\.\d*(?:e[-+]?\d+)?|\d+e-?\d+|\d*\.\d+)(f?)(?![\w.])', code):
        put(m.start(), m.end(), '(%s * 1.5%s + 0.25%s)' % (m.group(0), m.group(2), m.group(2)))
    for m in re.finditer(r' ([-+*]=) ', code):
        for new in {'+=': ['-=', '='], '-=': ['+=', '='], '*=': ['=', '/=']}[m.group(1)]:
            put(m.start() + 1, m.end() - 1, new)
    for m in re.finditer(r'(\+\+|--)(?=[a-z])', code):
        put(m.start(), m.end(), '--' if m.group(1) == '++' else '++')
    for m in re.finditer(r'\b(if|while) \(', code):
        end = closing(code, m.end() - 1)
        if end > 0:
            put(m.end() - 1, end, '(!(' + line[m.end():end] + ')')
            if m.group(1) == 'if':
                put(m.end() - 1, end, '(0 && (' + line[m.end():end] + ')')
    for m in re.finditer(r' \? ([^?:]+) : ([^?:;,()]+)(?=[;,)])', code):
        put(m.start(1), m.end(2), line[m.start(2):m.end(2)] + ' : ' + line[m.start(1):m.end(1)])
    for m in re.finditer(r'\b[a-z_]\w*\((\w[\w.>\[\]-]*), (\w[\w.>\[\]-]*)(?=[,)])', code):
        if m.group(1) != m.group(2):
            put(m.start(1), m.end(2), m.group(2) + ', ' + m.group(1))
    for m in re.finditer(r'\breturn (\w*status\w*|ppo__failed|PPO_ERROR_\w+);', code):
        put(m.start(1), m.end(1), 'PPO_OK')
    for m in re.finditer(r'\b(break|continue);', code):
        put(m.start(1), m.end(1), 'continue' if m.group(1) == 'break' else 'break')
    statement = code.strip()
    indent = line[:len(line) - len(line.lstrip())]
    if indent and statement.count('(') == statement.count(')'):
        if SIMPLE.match(statement) and not DECLARES.match(statement):
            found += [indent + ';'] * 2
        elif re.match(r'^if \(.*\) (return|break|continue|goto)\b.*;$', statement):
            found += [indent + ';'] * 2
    return [f for f in dict.fromkeys(found) if f != line] + [f for f in found if f == indent + ';'][1:]


def places():
    """[(file, its part, index of the line, the line, its code)]: what may be mutated"""
    found = []
    for h in headers():
        lines = read(os.path.join(TOP, h)).split('\n')
        part, inside = None, False
        for i, code in enumerate(masked(lines)):
            inside = inside or re.match(r'#if \(?defined\(PPO_IMPLEMENTATION\)', lines[i]) is not None
            if h != 'ppo.h':
                part = os.path.basename(h) if inside else None
            m = re.match(r'   @@ (\d+ )?(.*)', lines[i])
            if h == 'ppo.h' and m:
                title = re.split(r'[.:]', m.group(2))[0]
                part = '%2d %s' % (int(m.group(1)), title) if m.group(1) and int(m.group(1)) in SECTIONS else None
            if part and code.strip() and inside:
                found.append((h, part, i, lines[i], code))
    return found


def in_order(line):
    """With the first two arguments of a function sorted, where it does not matter which is first."""
    return re.sub(r'(\bppo__(?:at|min_int|max_int)|\bf(?:min|max)f?|!(?:str|strn|mem)cmp)\((\w[\w.>\[\]-]*), (\w[\w.>\[\]-]*)(?=[,)])',
                  lambda m: '%s(%s, %s' % ((m.group(1),) + tuple(sorted(m.groups()[1:]))), line)


def unsized_texts(line):
    return re.sub(r'(\[\d+\])?\[\d\d+\](?=,|;| = ")', '[]', line) if re.match(r' +char \w', line) else line


def grown(a, b):
    """Whether b declares an array with more elements than a does."""
    for m in re.finditer(r'\[(\d+)\](?=[,;\[])', a if re.match(r' +(?!return|else)(static |const )*\w+ \w[^=(]*;', a) else ''):
        if a[:m.start(1)] + str(int(m.group(1)) + 1) + a[m.end(1):] == b:
            return True
    return False


def alike(a, b):
    """Whether two lines do the same: two arguments have another order, a text's array another size, an array is larger."""
    return in_order(a) == in_order(b) or unsized_texts(a) == unsized_texts(b) or grown(a, b)


def drawn(seed):
    """At most one mutant of each line, in an order by the seed and the line's text, so that other lines may change without
    another choice; none that is alike, nor of what is said of companions."""
    chosen, seen = [], collections.Counter()
    for place in places():
        options = mutations(place[3], place[4])
        key = (place[0], place[3].strip())
        seen[key] += 1
        number = int(hashlib.md5(repr((str(seed), key, seen[key])).encode(errors='surrogateescape')).hexdigest(), 16)
        if options:
            chosen.append((number,) + place[:4] + (options[number % len(options)],))
    return [m[1:] for m in sorted(chosen) if not alike(m[4], m[5]) and 'ppo__needs(' not in m[4]]


def listed(path):
    """[(file, line, mutant, reason)] of a file that has blocks of a file's name, and for each mutant "- line", "+ mutant"
    and "= reason" """
    found, file, block = [], None, []
    for row in read(path).split('\n') if os.path.exists(path) else []:
        if not row or row.startswith('#'):
            continue
        if row[:2] not in ('- ', '+ ', '= '):
            file = ([h for h in headers() if os.path.basename(h) == row] + [None])[0]
        else:
            block.append(row)
        if not file or (block and row[0] != '-+='[(len(block) - 1) % 3] and row[0] in '-+='):
            sys.exit('%s: expected were a file, "- line", "+ mutant", "= reason": %s' % (path, row))
        if len(block) == 3:
            found.append((file,) + tuple(b[2:].strip() for b in block))
            block = []
    return found


def equivalents():
    """{(file, line, mutant): reason}"""
    return {l[:3]: l[3] for l in listed(os.path.join(TOP, 'tests', 'equivalent_mutants.txt'))}


def plant(file, index, text):
    lines = read(os.path.join(TOP, file)).split('\n')
    lines[index] = text
    write(os.path.join(TREE, file), opened(file, '\n'.join(lines)))


def restore(file):
    write(os.path.join(TREE, file), opened(file, read(os.path.join(TOP, file))))


def same_object():
    with open(os.path.join(BUILD, 'm.o'), 'rb') as a, open(os.path.join(BUILD, 'base.o'), 'rb') as b:
        return a.read() == b.read()


fatal = collections.Counter()  # how often a program killed a mutant of a part
refusers = set()


def tests_of(state, file, index, programs):
    """[(program, test, seconds)]: those that run the line; for a table, or a part of a statement that begins above, those
    that run what is above; all where there are none"""
    tests = [(p, t[0], t[1], t[2]) for p in programs for t in state['tests'].get(p, [])]
    for near in range(index + 1, max(0, index - 7), -1):
        name = '%s:%d' % (file, near)
        if name in state['lines']:
            return [t[:3] for t in tests if name in t[3]]
    return [t[:3] for t in tests]


def refusing():
    """{(program, test)}: those that have each of their allocations refused"""
    if not refusers:
        for p in programs():
            for test, body in re.findall(r'^static void (\w+)\(void \*\*state\) \{\n(.*?)^\}', read(os.path.join(
                    TOP, 'tests', p + '.c')), re.M | re.S):
                if 'fail_each_' in body:
                    refusers.add((p, test))
    return refusers


def outcome(part, tests, longer=1):
    """'killed by ...' where one of the tests [(program, test, seconds)] fails, else None"""
    groups = collections.defaultdict(list)
    for p, t, seconds in tests:
        groups[p].append((t, seconds))
    for p in sorted(groups, key=lambda p: (-fatal[part, p], sum(t[1] for t in groups[p]))):
        names = [t[0] for t in groups[p]]
        limit = 2 + 5 * longer * sum(t[1] for t in groups[p])
        status, out = run(['../mutant', p] + names, 30 + 10 * limit, processor=limit)
        if status:
            fatal[part, p] += 1
            ran = re.findall(r'^ran (.*)$', out, re.M)[-1:]
            at = names[names.index(ran[0]) + 1:] if ran and ran[0] in names else names
            slow = status in (124, -signal.SIGXCPU, -signal.SIGKILL)
            return 'killed by %s: %s %s' % (p, at[0] if at else 'its end',
                                            'does not end' if slow else 'crashes' if status < 0 else 'fails')
    return None


def judge(state, mutant, rounds, programs):
    """What became of a mutant: 'killed by ...', 'survived', or 'none' where it is none."""
    file, part, index, line, text = mutant
    plant(file, index, text)
    try:
        if compile_library() or same_object() or run(link('../m.o', '../mutant'))[0]:
            return 'none'
        tests = tests_of(state, file, index, programs)
        for low, high in rounds:
            verdict = outcome(part, [t for t in tests if low <= t[2] < high])
            if verdict:
                return verdict
        if rounds[-1][1] == EVER:
            os.environ['PPO_TEST_FINE'] = '1'
            verdict = outcome(part, [t for t in tests if t[:2] in refusing()], 20)
            del os.environ['PPO_TEST_FINE']
            if verdict:
                return verdict
        if os.path.basename(file) == 'ppo_export.h' and 'export.sh' in programs and not exports():
            return 'killed by export.sh'
        return 'survived'
    finally:
        restore(file)


def exports():
    """1: the policies that the library in ../m.o writes as C answer as they should"""
    return not run(link('../m.o', '../export').replace('../fixed.o', '../export.o ../kernels.o'))[0] and \
        not run('EXPORT=../export CC=%s sh tests/export.sh' % CC, 600, processor=100)[0]


def results_so_far(state):
    """{(file, line, mutant, which of the lines that read so): (verdict, the programs of that time)}; verdicts of another
    library have to be confirmed"""
    found, path = {}, os.path.join(BUILD, 'results.tsv')
    for row in read(path).split('\n') if os.path.exists(path) else []:
        row = row.split('\t')
        if len(row) == 6:
            found[tuple(row[1:4]) + (int(row[4]),)] = (row[5], json.load(open(os.path.join(BUILD, row[0] + '.json'))))
    return found


def verdict_of(state, mutant, before, all_tests):
    """The verdict, from an earlier run where nothing changed that matters: 'killed by ...', 'survived', 'none', or without
    all tests 'open', if it survived the short ones."""
    now = dict(state['programs'], **{'export.sh': fingerprint(['tests/export.sh', 'tests/export.c', 'tests/random_policies.h', 'tests/export_compare.c'])})
    every, short, long = list(now), [(0, SHORT), (SHORT, 1)], [(1, LONG), (LONG, EVER)]
    verdict, then = before or (None, {})
    known = then.get('shared') == state['shared']
    changed = [p for p in every if not known or then.get(p) != now[p]]
    by = re.match(r'killed by (test_\w+)', verdict or '')
    if known and verdict in ('open', 'survived'):
        done = verdict
        if changed:
            verdict = judge(state, mutant, short + long if done == 'survived' else short, changed)
            verdict = done if verdict == 'survived' else verdict
        if verdict == 'open' and all_tests:
            verdict = judge(state, mutant, long, every)
        if verdict == done and not changed:
            return verdict
    elif known:
        return verdict
    else:
        verdict = judge(state, mutant, short + long, [by.group(1)]) if by and by.group(1) in now else 'survived'
        if verdict == 'survived':
            verdict = judge(state, mutant, short + long if all_tests else short, every)
            verdict = 'open' if verdict == 'survived' and not all_tests else verdict
    generation = hashlib.md5(json.dumps([state['shared'], now], sort_keys=True).encode()).hexdigest()[:12]
    write(os.path.join(BUILD, generation + '.json'), json.dumps(dict(now, shared=state['shared'])))
    with open(os.path.join(BUILD, 'results.tsv'), 'a', errors='surrogateescape') as f:
        f.write('\t'.join([generation] + [str(part) for part in place_of(mutant)] + [verdict]) + '\n')
    return verdict


def main():
    state = build()
    state['lines'] = {l for tests in state['tests'].values() for t in tests for l in t[2]}
    for tests in state['tests'].values():
        for t in tests:
            t[2] = set(t[2])
    if sys.argv[1:2] == ['try']:
        for file, old, new, _ in listed(sys.argv[2]):
            lines = read(os.path.join(TOP, file)).split('\n')
            at = [i for i, l in enumerate(lines) if l.strip() == old]
            if len(at) != 1:
                say('%d times in %s: %s' % (len(at), file, old))
                continue
            indent = lines[at[0]][:len(lines[at[0]]) - len(lines[at[0]].lstrip())]
            say('%s:%d: %s => %s: %s' % (file, at[0] + 1, old, new, judge(
                state, (file, '', at[0], lines[at[0]], indent + new), [(0, SHORT), (SHORT, 1), (1, EVER)], list(state['programs']))))
        return 0
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = sys.argv[2] if len(sys.argv) > 2 else '1'
    known = equivalents()
    before = results_so_far(state)
    chosen = []
    for mutant in drawn(seed): # first by the short tests, then those that are left by all of them
        if len(chosen) == count:
            break
        verdict = verdict_of(state, mutant, before.get(place_of(mutant)), False)
        if verdict != 'none':
            chosen.append(mutant)
            tell(len(chosen), mutant, verdict, known)
    before = results_so_far(state)
    table, killed_equivalents, survivors = collections.defaultdict(collections.Counter), [], []
    for i, mutant in enumerate(chosen):
        key, row = key_of(mutant), table[mutant[1]]
        was = before[place_of(mutant)][0]
        verdict = verdict_of(state, mutant, before[place_of(mutant)], True)
        if verdict != was:
            tell(i + 1, mutant, verdict, known)
        row['mutants'] += 1
        if verdict.startswith('killed'):
            row['killed'] += 1
            if key in known:
                killed_equivalents.append(key)
        elif key in known:
            row['equivalent'] += 1
        else:
            row['survived'] += 1
            survivors.append('%s:%d\n    - %s\n    + %s' % (mutant[0], mutant[2] + 1, key[1], key[2]))
    return report(table, survivors, known, killed_equivalents)


def key_of(mutant):
    return mutant[0], mutant[3].strip(), mutant[4].strip()


def place_of(mutant):
    """The key, and which of the lines that read so: "return status;" stands in many functions"""
    above = read(os.path.join(TOP, mutant[0])).split('\n')[:mutant[2]]
    return key_of(mutant) + (sum(line.strip() == mutant[3].strip() for line in above),)


def tell(number, mutant, verdict, known):
    file, old, new = key_of(mutant)
    if not verdict.startswith('killed') and (file, old, new) not in known:
        say('%d: %s:%d: %s => %s: %s' % (number, file, mutant[2] + 1, old, new, verdict))
    elif number % 50 == 0:
        say('%d' % number)


def report(table, survivors, known, killed_equivalents):
    def share(row):
        counted = row['mutants'] - row['equivalent']
        return 100 * row['killed'] / counted if counted else 100

    total = collections.Counter()
    say('%-34s %8s %8s %10s %9s %7s' % ('', 'mutants', 'killed', 'equivalent', 'survived', 'share'))
    for part in sorted(table, key=lambda p: (p[0] == 'p', p)):
        row = table[part]
        total += row
        say('%-34s %8d %8d %10d %9d %6.1f%%' % (part, row['mutants'], row['killed'], row['equivalent'], row['survived'],
                                              share(row)))
    say('%-34s %8d %8d %10d %9d %6.1f%%' % ('all', total['mutants'], total['killed'], total['equivalent'],
                                          total['survived'], share(total)))
    lines = {(h, l.strip()) for h in headers() for l in read(os.path.join(TOP, h)).split('\n')}
    gone = [k for k in known if k[:2] not in lines]
    for k in gone:
        say('equivalent_mutants.txt: its line is gone: %s: %s' % k[:2])
    for k in killed_equivalents:
        say('equivalent_mutants.txt: killed now: %s: %s => %s' % k)
    if survivors:
        say('survived:\n' + '\n'.join(survivors))
    return 1 if share(total) < LEAST or killed_equivalents or gone else 0


if __name__ == '__main__':
    sys.exit(main())
