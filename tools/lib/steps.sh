# shellcheck shell=bash disable=SC2154 # the variables named below come from tools/check
# tools/lib/steps.sh: the gate, which both `tools/check` and `tools/check --full` run; sourced by tools/check, which defines the
# kinds of steps, build(), dev_test(), slow, fast, mode, root, cache and out. What judges time, takes long or draws its input anew each time is in
# tools/lib/full.sh. Within a kind steps begin in the order in which they stand here: long ones first.

model=$(tools/fetch-model smollm2 2>"$out/fetch-model.log") || model=""
python=$venv/bin/python
[ -x "$python" ] || python=python3
export TANDEM_TEST_MODEL="$model"

# The numbers and the texts: all fast suites under sanitizers with the fuzzers' corpora, and of the slow ones those of what runs
# on CPUs; the simulator on seeds that stand in the tree; oracles that are quick.
sim=build/release/tests/sim/sim
computes release/sim "$sim --file tests/sim/seeds.txt --seed 1 --seeds 350 --sights --jobs 1"
computes e2e/template_oracle "$python tests/e2e/template_oracle.py"
for name in $slow; do dev_test "$name"; done
computes models/spelled "$python tests/models/spelled_test.py"
for name in $fast; do dev_test "$name"; done
for name in router_tree base_allocator; do # of memory, which sanitizers spread
    computes "release/$name" "ctest --preset release --no-tests=error -R '^$name\$' -V"
done
works release/base_loop "ctest --preset release --no-tests=error -R '^base_loop\$' -V"
computes models/broken "$python tests/models/broken_test.py"
computes models/mutants "$python tests/models/families_test.py --mutants"
for oracle in tokenizer export; do
    computes "e2e/${oracle}_oracle" "$python tests/e2e/${oracle}_oracle.py"
done
computes e2e/grammar_oracle "$python tests/e2e/grammar_oracle.py --count 800"
computes hardening "tools/lints/hardening build/release/bin"
computes core_symbols "tools/lints/core_symbols build/release"

# Whole clusters: what stands here is in the gate, every other script of tests/e2e/ in --full.
e2e() { step "$1" "e2e/$2" "$python tests/e2e/$2.py ${3:-}"; } # KIND NAME [ARGUMENTS]
in_gate=" "
gate() { # KIND NAMES...
    local kind=$1 name
    shift
    for name in "$@"; do
        e2e "$kind" "$name"
        in_gate="$in_gate$name "
    done
}
# The daemons themselves under sanitizers: any report of any child is a failure (tests/e2e/sanitizers.py). No real model there.
sanitized() { step "$1" "$2/$3" "TANDEM_BUILD=$2 TANDEM_TEST_MODEL=/nonexistent $python tests/e2e/$3.py ${4:-}"; } # KIND BUILD NAME [ARGUMENTS]
e2e waits failover_test "--kills 4 --stops 1"
in_gate="${in_gate}failover_test "
sanitized works dev api_test
gate works api_test
e2e works tp_test "--kills 1 --stops 2 --no-real"
in_gate="${in_gate}tp_test "
sanitized works dev failover_test "--kills 2 --stops 1"
sanitized works dev sums_test # on emulated devices, which the release build has not
in_gate="${in_gate}sums_test "
e2e works structured_test "--schemas 6 --kills 2"
in_gate="${in_gate}structured_test "
e2e works protocols_kill_test "--kills 4"
in_gate="${in_gate}protocols_kill_test "
gate works tools_test grpc_test up_test parts_test bad_input_test prompt_test page_test memory_test answers_test grpc_wire_test http2_test
gate waits waiting_test service_test boot_test daemons_test log_test
sanitized waits dev grpc_test
sanitized waits dev tls_test
sanitized works dev hostile_test
gate waits batch_test messages_test responses_test proxies_test doctor_test events_test one_model_test
gate waits keys_test ipv6_test tls_test admin_test top_test chat_test trail_test traces_test grpc_vllm_test sanitizers_test manual_test
gate computes formats_test weights_test
waits package/slurm "$python tests/package/slurm_test.py"
waits package/kubernetes "$python tests/package/kubernetes_test.py"

# What changed lately gets more: in commits of the twelve hours before HEAD's own date, so that whoever checks this commit runs
# the same. The cheapest are taken, until they come to four minutes of two cores.
newest=$(git log -1 --format=%ct)
touched=$(git log --since=$((newest - 43200)) --format= --name-only -m | sort -u)
touches() { grep -qE "^($1)" <<<"$touched"; }
more=""
extra() { more="$more$1 $2"$'\n'; } # SECONDS OF A CORE, NAME; the functions extra_NAME say what it is
extra_tidy() { computes tidy "tools/tidy --jobs 1 $(grep '\.c$' <<<"$touched" | xargs -r ls 2>/dev/null | tr '\n' ' ')"; } # those that are still there
extra_families() { computes models/families "$python tests/models/families_test.py"; }
extra_spm() { computes e2e/spm_oracle "$python tests/e2e/spm_oracle.py"; }
extra_files() { computes e2e/tokenizer_files_oracle "$python tests/e2e/tokenizer_files_oracle.py"; }
tsan_tests="base_threads base_loop base_tls conform_comm conform_kernels bus worker_admin worker_board worker_rank worker_shell"
tsan() { # NAMES...: these tests of the tsan build
    local name
    # shellcheck disable=SC2046 # names, separated by blanks
    build tsan --target $(printf 'test_%s ' "$@")
    for name in "$@"; do works "tsan/$name" "ctest --preset tsan --no-tests=error -R '^$name\$' -V"; done
}
extra_tsan() { tsan base_threads base_loop bus worker_board conform_comm worker_shell; }
# The kernels' suites on the emulated device, with each access of a kernel looked at.
emulated() { # NAMES...
    local name
    # shellcheck disable=SC2046 # names, separated by blanks
    build emu --target $(printf 'test_%s ' "$@")
    for name in "$@"; do computes "emu/$name" "ctest --preset emu --no-tests=error -R '^$name\$' -V"; done
}
extra_emu() { emulated conform_kernels_weight_watched conform_kernels_floats_watched conform_kernels_sample_watched; }
extra_emu_moe() { emulated conform_kernels_moe_watched; }
extra_emu_products() { emulated conform_kernels_watched conform_kernels_rounded_ints_watched; }
extra_emu_attend() { emulated conform_kernels_attend_watched; }
if [ "$mode" = normal ]; then
    n_c=$(grep -c '\.c$' <<<"$touched" || true)
    [ "$n_c" = 0 ] || extra $((n_c / 8 + 1)) tidy
    ! touches 'kernels/|tests/emulator/|worker/family/' || extra 210 emu
    ! touches 'kernels/cuda/|tests/emulator/' || { extra 215 emu_moe && extra 220 emu_products && extra 225 emu_attend; }
    ! touches 'model/|kernels/|worker/family/' || extra 60 families
    ! touches 'model/text/' || { extra 65 spm && extra 45 files; }
    ! touches 'base/net/|worker/comm/|worker/ranks/|proto/bus' || extra 60 tsan
    left_s=480
    mapfile -t more < <(sort -n <<<"$more")
    for line in "${more[@]}"; do
        seconds=${line% *}
        [ -n "$line" ] && [ "$seconds" -le "$left_s" ] || continue
        left_s=$((left_s - seconds))
        "extra_${line#* }"
    done
fi
