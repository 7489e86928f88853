# shellcheck shell=bash disable=SC2154 # the variables named below come from tools/check
# tools/lib/steps.sh: what the whole check runs beside the dev build's tests; sourced by tools/check,
# which defines step(), build(), mode, root, cache and out.

step hardening 60 "tools/lints/hardening build/release/bin"
step core_symbols 60 "tools/lints/core_symbols build/release"

# The numbers must be the same bits in the optimised build too.
for name in $(ctest --preset release -N | sed -n 's/^ *Test *#[0-9]*: \(.*\)$/\1/p'); do
    case $name in
    kernels* | conform* | family* | transport* | sim*) step "release/$name" 900 "ctest --preset release -R '^$name\$' -V" ;;
    esac
done

# Races: whatever has threads of its own.
build tsan --target test_base_threads test_base_loop test_conform_comm test_conform_kernels test_bus test_worker_admin \
    test_worker_board test_worker_rank test_worker_shell
for name in base_threads base_loop conform_comm conform_kernels bus worker_admin worker_board worker_rank worker_shell; do
    step "tsan/$name" 900 "ctest --preset tsan -R '^$name\$' -V"
done

# Every fuzz target for a while on top of its corpus; what it finds stays in build/check/fuzz.
build fuzz --target fuzzers
fuzz_s=20
[ "$mode" = full ] && fuzz_s=1200
for target in build/fuzz/fuzz/fuzz_*; do
    name=$(basename "$target")
    mkdir -p "$out/fuzz/$name"
    step "$name" $((fuzz_s + 120)) "cd '$out/fuzz/$name' && '$root/$target' -max_total_time=$fuzz_s -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 . '$root/tests/fuzz/corpus/${name#fuzz_}'"
done

model=$(tools/fetch-model smollm2 2>"$out/fetch-model.log") || model=""
venv=$cache/check-venv
python_venv "$venv" numpy==2.2.6 gguf==0.19.0 tokenizers tiktoken sentencepiece==0.2.1 jinja2 openai \
    >"$out/venv.log" 2>&1 || true
python=$venv/bin/python
[ -x "$python" ] || python=python3
export TANDEM_TEST_MODEL="$model"

e2e() { step "e2e/$1" "$2" "TANDEM_TEST_MODEL='$model' $python tests/e2e/$1.py ${3:-}"; }
for script in tests/e2e/*_test.py; do
    [ -e "$script" ] || continue
    e2e "$(basename "$script" .py)" 900
done

e2e tokenizer_oracle 300
e2e tokenizer_files_oracle 600
e2e spm_oracle 300
e2e template_oracle 300
e2e export_oracle 300

# Tiny checkpoints of every family and format; the mutants show that their cases can fail.
step models/mutants 300 "$python tests/models/families_test.py --mutants"
step models/families $([ "$mode" = full ] && echo 3600 || echo 900) "$python tests/models/families_test.py$([ "$mode" = full ] && echo ' --full' || true)"
step models/broken 300 "$python tests/models/broken_test.py"
step models/reference 900 "$python tests/models/reference_test.py$([ "$mode" = full ] && echo ' --full' || true)"

if [ "$mode" = full ]; then
    step sim/long 3600 "build/release/tests/sim --seed 1 --seeds 2000"
fi
