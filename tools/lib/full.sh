# shellcheck shell=bash disable=SC2154 # the variables named below come from tools/check and tools/lib/steps.sh
# tools/lib/full.sh: what `tools/check --full` runs beside the gate: what judges time, takes long, or draws its input anew. Sourced
# by tools/check after tools/lib/steps.sh.

# The whole of what the gate does in part.
computes tidy "tools/tidy"
step_limit_s=2400 alone analyze "tools/tidy --analyze"
for name in $(tests_of dev slow | grep -vE '^conform_kernels_(attend_(fast|split)|rounded)'); do # of fast numerics: below, in emu
    grep -q "^dev/$name	" "$steps" || dev_test "$name"
done
computes release/model_regex "ctest --preset release --no-tests=error -R '^model_regex\$' -V" # with texts of a mebibyte
for oracle in grammar tokenizer_files spm ends; do
    computes "e2e/${oracle}_oracle" "$python tests/e2e/${oracle}_oracle.py"
done
step_limit_s=3600 computes e2e/folders_oracle "$python tests/e2e/folders_oracle.py"
step_limit_s=3600 computes models/families "$python tests/models/families_test.py --full"
step_limit_s=3600 computes models/reference "$python tests/models/reference_test.py --full"
step_limit_s=7200 alone sim/long "$sim --seed 1000000 --seeds 10100 --fresh 20000 --sights --jobs 2"

PATH="$PATH:$cache/prometheus/usr/bin" # promtool and a Prometheus, for boards_test
for script in tests/e2e/*_test.py; do
    name=$(basename "$script" .py)
    [[ "$in_gate" == *" $name "* ]] && continue
    case $name in
    logits_test) e2e computes "$name" --full ;;
    far_test | invariance_test | ahead_test | rows_test) e2e computes "$name" ;;
    *) e2e alone "$name" ;; # they judge time, or take all cores
    esac
done

# Races: whatever has threads of its own, and the daemons.
# shellcheck disable=SC2086 # names, separated by blanks
tsan $tsan_tests
build tsan --target tandem tandem-router tandem-worker hash_check

# Every fuzz target for a while on top of its corpus; what it finds stays in build/check/fuzz.
build fuzz --target fuzzers
# libFuzzer's own figure becomes a count; a target that tried nothing has failed.
fuzz_count="tee /dev/stderr | awk '/^stat::number_of_executed_units:/ {n = \$2} END {print \"tried \" n+0 \" inputs\"; print (n > 0) \" passed, \" (n == 0) \" failed, 0 skipped\"}'"
for target in build/fuzz/fuzz/fuzz_*; do
    name=$(basename "$target")
    mkdir -p "$out/fuzz/$name"
    step_limit_s=1800 computes "$name" "set -o pipefail; cd '$out/fuzz/$name' && '$root/$target' -max_total_time=1200 -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 . '$root/tests/fuzz/corpus/${name#fuzz_}' 2>&1 | $fuzz_count"
done

# The numbers must be the same bits in an optimised build too. Of the emulated backends each suite runs once: the exact one with
# each access of its kernels looked at, the fast one plain; what is theirs alone ran in the dev build.
build emu --target tandem tandem-router tandem-worker tandem-bench gpu_bits gpu_times gpu_sums kbench sim
names=$(tests_of emu | grep -E '^(conform|kernels|family|transport|sim)' | grep -v '^conform_device' |
    awk '!/^kernels_cuda/ || /_watched$|_few|_tensor$/')
# shellcheck disable=SC2046 # names, separated by blanks
build emu --target $(printf '%s\n' "$names" | grep -v '^sim$' | sed 's/_seed.$//; s/_wgmma$//; s/^/test_/' | sort -u)
for name in $names; do
    case $name in
    *_watched) subject="" ;; # has its own
    *_wgmma) subject="" ;; # they have their own
    conform_kernels_attend_fast* | conform_kernels_attend_split* | conform_kernels_rounded_ints | conform_kernels_layer) subject="TANDEM_SUBJECT=cuda-emu:fast " ;;
    conform_kernels_attend) subject="TANDEM_SUBJECT=cpu,cuda-emu:exact " ;; # the watched ones have fewer positions
    *) subject="TANDEM_SUBJECT=cpu,cuda-emu:fast " ;;
    esac
    computes "emu/$name" "${subject}ctest --preset emu --no-tests=error -R '^$name\$' -V"
done
# What is done on a machine with a GPU, on the emulated one: every step of tests/gpu/run with tiny shapes; then all bits, and whole
# clusters. Not under sanitizers: what they say of the kernels, the suites say; of the workers, far_test.py on the backend far.
works gpu/runner "$python tests/gpu/runner_test.py"
step_limit_s=1800 works gpu/rehearse "tests/gpu/run --rehearse --out '$out/gpu'"
for numerics in exact fast; do
    step_limit_s=1800 computes "gpu/bits_$numerics" "build/emu/bin/gpu_bits cuda-emu:$numerics cpu quick"
done
step_limit_s=3600 works emu/far_test "$python tests/e2e/far_test.py cuda-emu"
step_limit_s=1800 computes gpu/sass "$python tests/gpu/sass.py"

sanitized waits dev daemons_test
sanitized waits dev grpc_vllm_test
sanitized works dev tp_test
sanitized alone dev sick_test "--requests 40"
sanitized alone tsan failover_test "--kills 3 --stops 1"

works e2e/tp_test/long "$python tests/e2e/tp_test.py"
step_limit_s=3600 works e2e/structured_test/long "$python tests/e2e/structured_test.py --schemas 300 --groups 1000 --kills 150"
works e2e/protocols_kill_test/long "$python tests/e2e/protocols_kill_test.py"
works e2e/tools_test/long "$python tests/e2e/tools_test.py --tools 500"
step_limit_s=5400 alone e2e/failover_test/long "$python tests/e2e/failover_test.py --kills 200 --stops 30"
step_limit_s=5400 alone e2e/real_failover_test/long "$python tests/e2e/real_failover_test.py --kills 60 --stops 10"
step_limit_s=1800 alone e2e/far_test/real "$python tests/e2e/far_test.py cuda-emu real"
step_limit_s=3600 alone tsan/failover_long "TANDEM_BUILD=tsan $python tests/e2e/failover_test.py --kills 40 --stops 5"
step_limit_s=3600 alone package "tools/package >&2 && $python tests/package/installed_test.py"
step_limit_s=3600 alone package/container "$python tests/package/container_test.py"
alone package/slurm_nodes "$python tests/package/slurm_nodes_test.py"
step_limit_s=14400 alone mutants "tests/mutants/run --jobs 2"
# On lines of the two days before HEAD's date, others with each commit. What survives is told and fails nothing: which lines are
# drawn is chance.
since=$(git rev-list -1 --before=$((newest - 172800)) HEAD)
step_limit_s=7200 alone mutants/stranger "tests/mutants/stranger ${since:+--lines $since} --number 60 --seconds 3600 --jobs 2"
