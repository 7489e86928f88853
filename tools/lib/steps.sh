# shellcheck shell=bash disable=SC2154 # the variables named below come from tools/check
# tools/lib/steps.sh: what the whole check runs beside the dev build's tests; sourced by tools/check,
# which defines the kinds of steps, build(), mode, root, cache and out.

computes tidy 300 "tools/tidy"
[ "$mode" != full ] || alone analyze 2400 "tools/tidy --analyze"
computes hardening 60 "tools/lints/hardening build/release/bin"
computes core_symbols 60 "tools/lints/core_symbols build/release"

# Races: whatever has threads of its own, and the daemons.
tsan_tests="base_threads base_loop base_tls conform_comm conform_kernels bus worker_admin worker_board worker_rank worker_shell"
# shellcheck disable=SC2046,SC2086 # names, separated by blanks
build tsan --target $(printf 'test_%s ' $tsan_tests) tandem tandem-router tandem-worker hash_check
for name in $tsan_tests; do
    computes "tsan/$name" 900 "ctest --preset tsan --no-tests=error -R '^$name\$' -V"
done

# Every fuzz target for a while on top of its corpus; what it finds stays in build/check/fuzz.
build fuzz --target fuzzers
# libFuzzer's own figure becomes a count; a target that tried nothing has failed.
fuzz_count="tee /dev/stderr | awk '/^stat::number_of_executed_units:/ {n = \$2} END {print \"tried \" n+0 \" inputs\"; print (n > 0) \" passed, \" (n == 0) \" failed, 0 skipped\"}'"
fuzz_s=5
[ "$mode" = full ] && fuzz_s=1200
for target in build/fuzz/fuzz/fuzz_*; do
    name=$(basename "$target")
    mkdir -p "$out/fuzz/$name"
    computes "$name" $((fuzz_s + 120)) "set -o pipefail; cd '$out/fuzz/$name' && '$root/$target' -max_total_time=$fuzz_s -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 . '$root/tests/fuzz/corpus/${name#fuzz_}' 2>&1 | $fuzz_count"
done

model=$(tools/fetch-model smollm2 2>"$out/fetch-model.log") || model=""
venv=$cache/check-venv
nvcc_reads="" # what looks into nvcc's code, where there is one
! [ -x "${TANDEM_NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}" ] || nvcc_reads="nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37"
# shellcheck disable=SC2086 # names, separated by blanks
python_venv "$venv" numpy==2.2.6 gguf==0.19.0 tokenizers tiktoken sentencepiece==0.2.1 jinja2 openai h2==4.4.1 "httpx[http2]==0.28.1" \
    grpcio==1.76.0 grpcio-tools==1.76.0 grpcio-health-checking==1.76.0 grpcio-reflection==1.76.0 kubernetes-validate==1.37.0 \
    $nvcc_reads \
    >"$out/venv.log" 2>&1 || true
# The gateways' client needs a newer protobuf than grpcio's tools take (tests/e2e/grpc_vllm_test.py finds this by its name).
python_venv "$cache/smg-venv" smg-grpc-proto==0.4.28 >"$out/smg-venv.log" 2>&1 || true
# promtool and a Prometheus for tests/e2e/boards_test.py.
unpack_package "$cache/prometheus" prometheus >"$out/prometheus.log" 2>&1 || true
PATH="$PATH:$cache/prometheus/usr/bin"
python=$venv/bin/python
[ -x "$python" ] || python=python3
export TANDEM_TEST_MODEL="$model"

e2e() { "$1" "e2e/$2${5:+/$5}" "$3" "TANDEM_TEST_MODEL='$model' $python tests/e2e/$2.py ${4:-}"; } # KIND NAME LIMIT [ARGS [AS]]
for script in tests/e2e/*_test.py; do
    name=$(basename "$script" .py)
    case $name in
    logits_test) e2e computes "$name" 900 "$([ "$mode" != full ] || echo --full)" ;;
    far_test | invariance_test) e2e computes "$name" 900 ;;
    bench_test | busy_test | cancel_test) e2e alone "$name" 900 ;; # they measure time, or take all cores
    *) e2e waits "$name" 900 ;;
    esac
done

waits package/kubernetes 300 "$python tests/package/kubernetes_test.py"
waits package/slurm 300 "$python tests/package/slurm_test.py"

# The numbers must be the same bits in an optimised build too. Of the emulated backends each suite runs once: the exact one with
# each access of its kernels looked at, the fast one plain; what is theirs alone ran in the dev build.
emulated="tandem tandem-router tandem-worker gpu_bits kbench sim"
# shellcheck disable=SC2086 # names, separated by blanks
build emu --target $emulated
names=$(tests_of emu | grep -E '^(conform|kernels|family|transport|sim)' | grep -vE '^(conform_device|kernels_cuda|.*_seed[0-9])')
# shellcheck disable=SC2046 # names, separated by blanks
build emu --target $(printf '%s\n' "$names" | grep -v '^sim$' | sed 's/^/test_/')
for name in $names; do
    case $name in
    *_watched) subject="" ;; # has its own
    conform_kernels_attend_fast | conform_kernels_attend_split | conform_kernels_rounded_ints) continue ;; # of fast numerics alone
    conform_kernels_attend) subject="TANDEM_SUBJECT=cpu " ;; # the emulated one is watched
    *) subject="TANDEM_SUBJECT=cpu,cuda-emu-fast " ;;
    esac
    computes "emu/$name" 900 "${subject}ctest --preset emu --no-tests=error -R '^$name\$' -V"
done
# What is done on a machine with a GPU, on the emulated one: bits of real shapes, whole models. Not under sanitizers: what they
# say of the kernels, the suites say; of the workers, far_test.py on the backend far.
computes gpu/rehearse 900 "tests/gpu/run --rehearse --out '$out/gpu'"

# Of the records of what was changed lately, as many as a minute allows; all of them in --full.
base=$(git rev-parse -q --verify HEAD~20) || base=$(git rev-list --max-parents=0 HEAD | tail -n 1)
computes mutants/changed 900 "tests/mutants/run --changed $base --jobs 1 --seconds 60"

# What computes in one process, without daemons or clocks.
computes gpu/sass 600 "$python tests/gpu/sass.py$([ "$mode" = full ] || echo " --changed $base --seconds 80")"
for oracle in tokenizer tokenizer_files spm template export; do
    computes "e2e/${oracle}_oracle" 600 "TANDEM_TEST_MODEL='$model' $python tests/e2e/${oracle}_oracle.py"
done
# Tiny checkpoints of every family and format; the mutants show that their cases can fail.
computes models/mutants 300 "$python tests/models/families_test.py --mutants"
computes models/families $([ "$mode" = full ] && echo 3600 || echo 900) "$python tests/models/families_test.py$([ "$mode" = full ] && echo ' --full' || true)"
computes models/broken 300 "$python tests/models/broken_test.py"
computes models/reference 900 "$python tests/models/reference_test.py$([ "$mode" = full ] && echo ' --full' || true)"

# The daemons themselves under sanitizers: any report of any child is a failure (tests/e2e/sanitizers.py).
sanitized() { "${4:-waits}" "$1/$2" 600 "TANDEM_BUILD=$1 TANDEM_TEST_MODEL='' $python tests/e2e/$2.py ${3:-}"; }
sanitized dev api_test
sanitized dev daemons_test
sanitized dev grpc_test
sanitized dev grpc_vllm_test
sanitized dev tls_test
sanitized dev hostile_test
sanitized dev tp_test
sanitized dev failover_test "--kills 4 --stops 1"
sanitized dev sick_test "--requests 40"
sanitized tsan failover_test "--kills 3 --stops 1" alone

if [ "$mode" = full ]; then
    alone sim/long 7200 "build/emu/tests/sim/sim --seed 1000000 --seeds 10000 --fresh 20000 --sights --jobs 2"
    e2e alone failover_test 5400 "--kills 200 --stops 30" long
    e2e alone real_failover_test 5400 "--kills 60 --stops 10" long
    e2e alone far_test 1800 "cuda-emu real" real
    alone tsan/failover_long 3600 "TANDEM_BUILD=tsan $python tests/e2e/failover_test.py --kills 40 --stops 5"
    alone package 3600 "tools/package >&2 && $python tests/package/installed_test.py"
    alone package/container 3600 "$python tests/package/container_test.py"
    alone mutants 14400 "tests/mutants/run --jobs 2"
fi
