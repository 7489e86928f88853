/* The rows of config.json and of the objects inside it. */
#include "model/members/members.h"

#include <stddef.h>

#define DENSE  (KIN_LLAMA | KIN_MISTRAL | KIN_QWEN2 | KIN_QWEN3)
#define MOES   (KIN_QWEN2_MOE | KIN_QWEN3_MOE)
#define PLAIN  (DENSE | MOES)
#define QWENS  (KIN_QWEN2 | KIN_QWEN3 | MOES)
#define NORMED (KIN_QWEN3 | KIN_QWEN3_MOE)

const struct member_row members_config[] = {
    /* Sizes and what all classes share. */
    {KIN_ALL, MEMBER_READ, "l", "architectures", 0},
    {KIN_ALL, MEMBER_READ, "i", "hidden_size num_attention_heads bos_token_id", 0},
    {KIN_ALL, MEMBER_READ, "il", "eos_token_id", 0},
    {KIN_ALL, MEMBER_READ, "b", "tie_word_embeddings", 0},
    {KIN_ALL, MEMBER_READ, "t", "torch_dtype dtype", 0},
    {KIN_ALL, MEMBER_TYPED, "t", "model_type tokenizer_class", 0},
    {KIN_ALL, MEMBER_INSIDE, NULL, "quantization_config", MEMBERS_QUANT},
    {KIN_ALL & ~KIN_CHATGLM, MEMBER_READ, "i", "num_hidden_layers intermediate_size vocab_size", 0},
    {PLAIN | KIN_BAICHUAN, MEMBER_READ, "i", "num_key_value_heads head_dim", 0},
    {PLAIN | KIN_BAICHUAN, MEMBER_READ, "r", "rms_norm_eps rope_theta partial_rotary_factor", 0},
    {PLAIN | KIN_BAICHUAN, MEMBER_READ, "t", "hidden_act", 0},
    {PLAIN | KIN_BAICHUAN, MEMBER_INSIDE, NULL, "rope_scaling rope_parameters", MEMBERS_ROPE},
    {PLAIN | KIN_QWEN, MEMBER_READ, "i", "max_position_embeddings", 0},

    /* Llama and its kin. */
    {KIN_LLAMA | NORMED, MEMBER_READ, "b", "attention_bias", 0},
    {KIN_LLAMA, MEMBER_READ, "b", "mlp_bias", 0},
    {KIN_LLAMA, MEMBER_READ, "i", "pretraining_tp", 0},
    {KIN_LLAMA, MEMBER_NOTHING, "the class has no window", "sliding_window max_window_layers", 0},
    {KIN_LLAMA, MEMBER_WANTED, "[\"full_attention\"]", "layer_types", 0},
    {KIN_MISTRAL, MEMBER_NOTHING, "sliding_window says it", "use_sliding_window max_window_layers",
     0},
    {KIN_MISTRAL | QWENS, MEMBER_READ, "i", "sliding_window", 0},
    {KIN_MISTRAL | QWENS, MEMBER_READ, "l", "layer_types", 0},
    {QWENS, MEMBER_READ, "b", "use_sliding_window", 0},
    {QWENS & ~KIN_QWEN3_MOE, MEMBER_READ, "i", "max_window_layers", 0},
    {KIN_QWEN3_MOE, MEMBER_NOTHING, "the class has a window in all layers", "max_window_layers", 0},
    {KIN_QWEN2 | KIN_QWEN2_MOE, MEMBER_NOTHING, "the class does not ask", "attention_bias", 0},
    {KIN_QWEN2, MEMBER_WANTED, "[true]", "qkv_bias", 0},
    {KIN_QWEN2_MOE, MEMBER_READ, "b", "qkv_bias", 0},
    {NORMED, MEMBER_WANTED, "[true]", "use_qk_norm qk_norm", 0},

    /* Mixtures of experts. */
    {MOES, MEMBER_READ, "i", "num_experts num_experts_per_tok moe_intermediate_size", 0},
    {MOES, MEMBER_READ, "i", "decoder_sparse_step", 0},
    {MOES, MEMBER_READ, "b", "norm_topk_prob", 0},
    {MOES, MEMBER_READ, "l", "mlp_only_layers", 0},
    {KIN_QWEN2_MOE, MEMBER_READ, "i", "shared_expert_intermediate_size", 0},
    {KIN_QWEN3_MOE, MEMBER_WANTED, "[0]", "shared_expert_intermediate_size", 0},
    {MOES, MEMBER_READ, "i", "num_local_experts", 0},
    {KIN_ALL & ~MOES, MEMBER_WANTED, "[0,1]", "num_experts num_local_experts n_routed_experts", 0},
    {MOES, MEMBER_WANTED, "[0]", "n_shared_experts num_shared_experts", 0},
    {MOES, MEMBER_WANTED, "[0,1]", "n_group topk_group", 0},
    {MOES, MEMBER_WANTED, "[1]", "routed_scaling_factor", 0},
    {MOES, MEMBER_WANTED, "[\"softmax\"]", "scoring_func", 0},

    /* Qwen, the first. */
    {KIN_QWEN, MEMBER_READ, "i", "kv_channels seq_length", 0},
    {KIN_QWEN, MEMBER_READ, "r", "layer_norm_epsilon rotary_pct rotary_emb_base", 0},
    {KIN_QWEN, MEMBER_READ, "b", "no_bias use_dynamic_ntk use_logn_attn", 0},
    {KIN_QWEN, MEMBER_WANTED, "[true]", "scale_attn_weights", 0},
    {KIN_QWEN, MEMBER_WANTED, "[false]", "use_cache_quantization", 0},
    {KIN_QWEN, MEMBER_NOTHING, "num_hidden_layers says it", "n_layer", 0},
    {KIN_QWEN, MEMBER_NOTHING, "the tensors say it", "bf16 fp16 fp32", 0},
    {KIN_QWEN, MEMBER_NOTHING, "how the publisher's kernels run",
     "use_flash_attn use_cache_kernel softmax_in_fp32 onnx_safe", 0},

    /* ChatGLM. */
    {KIN_CHATGLM, MEMBER_READ, "i",
     "num_layers ffn_hidden_size padded_vocab_size seq_length multi_query_group_num kv_channels",
     0},
    {KIN_CHATGLM, MEMBER_READ, "r", "layernorm_epsilon rope_ratio", 0},
    {KIN_CHATGLM, MEMBER_READ, "b",
     "multi_query_attention add_qkv_bias rmsnorm add_bias_linear post_layer_norm "
     "apply_residual_connection_post_layernorm original_rope position_encoding_2d",
     0},
    {KIN_CHATGLM, MEMBER_READ, "", "pre_seq_len", 0}, /* refused at any value */
    {KIN_CHATGLM, MEMBER_WANTED, "[0]", "quantization_bit", 0},
    {KIN_CHATGLM, MEMBER_WANTED, "[false]", "interleaved_qkv", 0},
    {KIN_CHATGLM, MEMBER_NOTHING, "cancels out", "apply_query_key_layer_scaling", 0},
    {KIN_CHATGLM, MEMBER_NOTHING, "rounding alone",
     "attention_softmax_in_fp32 bias_dropout_fusion fp32_residual_connection", 0},
    {KIN_CHATGLM, MEMBER_NOTHING, "num_layers, padded_vocab_size and seq_length say it",
     "num_hidden_layers vocab_size max_position_embeddings", 0},
    {KIN_CHATGLM, MEMBER_NOTHING, "of pre_seq_len", "prefix_projection", 0},

    /* Baichuan: the 13B says model_max_length, the 7B both. */
    {KIN_BAICHUAN, MEMBER_READ, "i", "model_max_length", 0},
    {KIN_BAICHUAN, MEMBER_READ, "i", "max_position_embeddings", 0},
    {KIN_BAICHUAN, MEMBER_NOTHING, "training", "z_loss_weight", 0},

    /* Of other networks: what they compute is not computed here. */
    {KIN_ALL, MEMBER_WANTED, "[0]",
     "final_logit_softcapping attn_logit_softcapping logit_softcapping logits_soft_cap "
     "attention_chunk_size no_rope_layer_interval nope_layer_interval",
     0},
    {KIN_ALL, MEMBER_WANTED, "[1]",
     "embedding_multiplier residual_multiplier logits_scaling logit_scale lm_head_multiplier "
     "scale_emb no_rope_layers",
     0},
    {KIN_ALL, MEMBER_WANTED, "[]",
     "attention_multiplier query_pre_attn_scalar scale_depth dim_model_base clip_qkv "
     "rope_local_base_freq sliding_window_pattern pruned_heads text_config vision_config "
     "quantization compression_config",
     0},
    {KIN_ALL, MEMBER_WANTED, "[false]",
     "attention_bias mlp_bias qkv_bias use_bias bias enable_bias attention_out_bias use_qk_norm "
     "qk_norm qk_layernorm use_parallel_residual parallel_residual parallel_attn parallel_block "
     "alibi use_alibi attn_temperature_tuning rope_interleaved rope_interleave use_mrope use_nope "
     "use_sliding_window is_encoder_decoder add_cross_attention use_post_norm scale_embedding",
     0},
    {KIN_ALL, MEMBER_WANTED, "[\"rope\",\"rotary\"]", "position_embedding_type", 0},
    {KIN_QWEN | KIN_CHATGLM, MEMBER_WANTED, "[\"silu\",\"swish\",\"swiglu\"]", "hidden_act", 0},

    {KIN_ALL, MEMBER_NOTHING, "names and origins",
     "_name_or_path name_or_path transformers_version auto_map custom_pipelines _commit_hash "
     "unsloth_fixed unsloth_version finetuning_task task_specific_params problem_type prefix "
     "_from_model_config transformers.js_config",
     0},
    {KIN_ALL, MEMBER_NOTHING, "training",
     "initializer_range attention_dropout hidden_dropout attn_dropout_prob emb_dropout_prob "
     "hidden_dropout_prob attention_probs_dropout_prob resid_pdrop embd_pdrop attn_pdrop "
     "gradient_checkpointing output_router_logits router_aux_loss_coef router_jitter_noise "
     "z_loss_weight pretraining_tp num_nextn_predict_layers mup_enabled",
     0},
    {KIN_ALL, MEMBER_NOTHING, "how and in which form a library answers",
     "use_cache output_attentions output_hidden_states return_dict torchscript use_bfloat16 "
     "chunk_size_feed_forward attn_implementation _attn_implementation "
     "_attn_implementation_autoset _flash_attn_2_enabled use_flash_attention is_decoder "
     "tf_legacy_loss ep_size use_flash_attn",
     0},
    {KIN_ALL, MEMBER_NOTHING, "of encoders, classifiers and adapters",
     "cross_attention_hidden_size tie_encoder_decoder decoder_start_token_id sep_token_id id2label "
     "label2id num_labels classifier_dropout summary_type summary_activation summary_use_proj "
     "summary_first_dropout summary_proj_to_labels",
     0},
    {KIN_ALL, MEMBER_NOTHING, "sequences are not padded", "pad_token_id", 0},
    {KIN_ALL, MEMBER_NOTHING, "max_position_embeddings or seq_length says it",
     "max_sequence_length model_max_length tokenizer_model_max_length seq_length", 0},
    {0, 0, NULL, NULL, 0},
};

const struct member_row members_rope[] = {
    {KIN_ALL, MEMBER_READ, "t", "rope_type type", 0},
    {KIN_ALL, MEMBER_READ, "i", "original_max_position_embeddings", 0},
    {KIN_ALL, MEMBER_READ, "r",
     "rope_theta partial_rotary_factor factor low_freq_factor high_freq_factor attention_factor "
     "beta_fast beta_slow mscale mscale_all_dim",
     0},
    {KIN_ALL, MEMBER_READ, "b", "truncate", 0},
    {KIN_ALL, MEMBER_WANTED, "[1]", "extrapolation_factor attn_factor", 0},
    {KIN_ALL, MEMBER_WANTED, "[]", "short_factor long_factor mrope_section alpha", 0},
    {KIN_ALL, MEMBER_WANTED, "[false]", "mrope_interleaved", 0},
    {KIN_ALL, MEMBER_NOTHING, "training", "finetuned", 0},
    {0, 0, NULL, NULL, 0},
};

const struct member_row members_quant[] = {
    {KIN_ALL, MEMBER_READ, "t", "quant_method version checkpoint_format packing_format data_type",
     0},
    {KIN_ALL, MEMBER_READ, "i", "bits w_bit group_size q_group_size act_bits", 0},
    {KIN_ALL, MEMBER_READ, "b", "zero_point is_marlin_format desc_act sym", 0},
    {KIN_ALL, MEMBER_READ, "o", "dynamic extra_config", 0},
    {KIN_ALL, MEMBER_WANTED, "[\"int32\"]", "pack_dtype", 0},
    {KIN_ALL, MEMBER_WANTED, "[]", "rotation adapter", 0},
    {KIN_ALL, MEMBER_NOTHING, "the tensors say it",
     "modules_to_not_convert lm_head to_quant_block_names block_name_to_quantize quant_block_list "
     "modules_in_block_to_quantize inside_layer_modules module_name_preceding_first_block",
     0},
    {KIN_ALL, MEMBER_NOTHING, "how it was quantized",
     "damp_percent damp_auto_increment static_groups true_sequential mse dataset tokenizer "
     "batch_size model_seqlen meta quantizer model_name_or_path model_file_base_name nsamples "
     "seqlen iters lr minmax_lr amp train_bs low_gpu_mem_usage enable_minmax_tuning "
     "enable_quanted_input enable_norm_bias_tuning gradient_accumulate_steps autoround_version "
     "scale_dtype act_data_type act_dynamic act_group_size act_sym super_bits super_group_size "
     "pad_token_id offload_to_disk offload_to_disk_path v2 vram_strategy gptaq gptaq_alpha",
     0},
    {KIN_ALL, MEMBER_NOTHING, "how other programs run it",
     "backend use_cuda_fp16 use_exllama disable_exllama exllama_config max_input_length "
     "cache_block_outputs do_fuse fuse_max_seq_len modules_to_fuse",
     0},
    {0, 0, NULL, NULL, 0},
};
