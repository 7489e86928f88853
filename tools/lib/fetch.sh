# shellcheck shell=bash disable=SC2154 # the variables named below come from tools/check
# tools/lib/fetch.sh: what the tests take from PyPI and from Debian beside installed packages, kept in the cache. Sourced by
# tools/check, which defines cache. What cannot be fetched is missing, and the tests that want it are SKIPPED.

venv=$cache/check-venv

fetch_all() {
    local nvcc_reads="" # what looks into nvcc's code, where there is one
    ! [ -x "${TANDEM_NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}" ] || nvcc_reads="nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37"
    # shellcheck disable=SC2086 # names, separated by blanks
    python_venv "$venv" numpy==2.2.6 gguf==0.19.0 tokenizers tiktoken sentencepiece==0.2.1 jinja2 openai "jsonschema[format-nongpl]==4.26.0" llguidance==1.9.1 lark==1.3.1 h2==4.4.1 "httpx[http2]==0.28.1" \
        anthropic grpcio==1.76.0 grpcio-tools==1.76.0 grpcio-health-checking==1.76.0 grpcio-reflection==1.76.0 kubernetes-validate==1.37.0 opentelemetry-proto==1.45.2 \
        $nvcc_reads || true
    # The JSON-Schema-Test-Suite, and public schemas (tests/e2e/grammar_oracle.py).
    unpack_pypi "$cache/json-schema-suite" "$venv/bin/python" --no-binary=jsonschema jsonschema==4.26.0 || true
    unpack_pypi "$cache/public-schemas" "$venv/bin/python" check-jsonschema==0.39.0 nbformat==5.11.1 || true
    # The gateways' client needs a newer protobuf than grpcio's tools take (tests/e2e/grpc_vllm_test.py finds this by its name).
    python_venv "$cache/smg-venv" smg-grpc-proto==0.4.28 || true
    # What saves and reads model folders in both of its ways (tests/e2e/folders_oracle.py, ends_oracle.py).
    if [ "$mode" = full ]; then
        python_venv "$cache/transformers4-venv" transformers==4.57.6 sentencepiece==0.2.1 tiktoken==0.14.0 protobuf==7.36.2 jinja2==3.1.6 || true
        python_venv "$cache/transformers5-venv" transformers==5.24.0 sentencepiece==0.2.1 tiktoken==0.14.0 protobuf==7.36.2 jinja2==3.1.6 || true
    fi
    # The frameworks of tests/e2e/frameworks_test.py and frameworks_responses_test.py, and those that want older openai packages (frameworks_openai2_test.py).
    if [ "$mode" = full ]; then
        python_venv "$cache/frameworks-venv" numpy==2.4.6 jsonschema==4.26.0 openai==3.57.0 litellm==1.110.2 langchain==1.5.2 langchain-openai==1.7.4 \
            "pydantic-ai-slim[openai]==2.68.0" "smolagents[openai]==1.26.0" outlines==1.3.3 openai-agents==0.24.0 || true
        python_venv "$cache/frameworks-openai2-venv" numpy==2.4.6 jsonschema==4.26.0 openai==2.54.0 instructor==1.17.0 llama-index-core==0.14.25 \
            llama-index-llms-openai-like==0.8.1 || true
    fi
    # What reads /openapi.json and asks by it (tests/e2e/openapi_test.py).
    [ "$mode" != full ] || python_venv "$cache/schemathesis-venv" numpy==2.4.6 schemathesis==4.32.5 openapi-spec-validator==0.9.0 || true
    [ "$mode" != full ] || tests/mutants/stranger --fetch || true
    tools/fetch-model smollm2 || true
    # promtool and a Prometheus for tests/e2e/boards_test.py.
    [ "$mode" != full ] || unpack_package "$cache/prometheus" prometheus || true
}
