/* The rows of the files that lie beside config.json. */
#include "model/members/members.h"

#include <stddef.h>

const struct member_row members_generation[] = {
    {KIN_ALL, MEMBER_READ, "i", "bos_token_id", 0},
    {KIN_ALL, MEMBER_READ, "il", "eos_token_id", 0},
    {KIN_ALL, MEMBER_READ, "r", "temperature top_p top_k min_p repetition_penalty max_new_tokens",
     0},
    {KIN_ALL, MEMBER_WANTED, "[0]",
     "min_length min_new_tokens no_repeat_ngram_size encoder_no_repeat_ngram_size epsilon_cutoff "
     "eta_cutoff penalty_alpha diversity_penalty frequency_penalty presence_penalty",
     0},
    {KIN_ALL, MEMBER_WANTED, "[1]",
     "num_beams num_beam_groups num_return_sequences typical_p encoder_repetition_penalty "
     "guidance_scale",
     0},
    {KIN_ALL, MEMBER_WANTED, "[]",
     "bad_words_ids force_words_ids suppress_tokens begin_suppress_tokens forced_bos_token_id "
     "forced_eos_token_id exponential_decay_length_penalty sequence_bias constraints stop_strings "
     "watermarking_config dola_layers max_time top_h",
     0},
    {KIN_ALL, MEMBER_WANTED, "[false]", "token_healing", 0},
    /* Qwen, the first: ends of its two formats, which stop ids cover. Baichuan: of its own format. */
    {KIN_ALL, MEMBER_WANTED, "[151643,151644,151645]", "stop_words_ids", 0},
    {KIN_ALL, MEMBER_WANTED, "[\"chatml\",\"raw\"]", "chat_format", 0},
    {KIN_ALL, MEMBER_WANTED, "[195]", "user_token_id", 0},
    {KIN_ALL, MEMBER_WANTED, "[196]", "assistant_token_id", 0},
    {KIN_ALL, MEMBER_NOTHING, "a library's default; requests are sampled", "do_sample", 0},
    {KIN_ALL, MEMBER_NOTHING, "the context is config.json's", "max_length max_window_size", 0},
    {KIN_ALL, MEMBER_NOTHING, "of beams alone", "length_penalty early_stopping renormalize_logits",
     0},
    {KIN_ALL, MEMBER_NOTHING, "sequences are not padded, logits are not filtered",
     "pad_token_id remove_invalid_values", 0},
    {KIN_ALL, MEMBER_NOTHING, "origins",
     "_from_model_config _commit_hash transformers_version trust_remote_code auto_map", 0},
    {KIN_ALL, MEMBER_NOTHING, "how and in which form a library answers",
     "use_cache cache_implementation cache_config return_legacy_cache max_cache_len "
     "prefill_chunk_size compile_config disable_compile low_memory continuous_batching_config "
     "output_attentions output_hidden_states output_scores output_logits return_dict_in_generate "
     "decoder_start_token_id",
     0},
    {KIN_ALL, MEMBER_NOTHING, "guesses that change no answer",
     "is_assistant num_assistant_tokens num_assistant_tokens_schedule "
     "assistant_confidence_threshold assistant_early_exit assistant_lookbehind target_lookbehind "
     "assistant_ensemble_weight prompt_lookup_num_tokens max_matching_ngram_size speculation_type "
     "use_mtp",
     0},
    {0, 0, NULL, NULL, 0},
};

const struct member_row members_tokenizer[] = {
    {KIN_ALL, MEMBER_READ, "to", "bos_token eos_token unk_token pad_token tokenizer_class", 0},
    {KIN_ALL, MEMBER_READ, "b", "add_bos_token add_eos_token legacy", 0},
    {KIN_ALL, MEMBER_READ, "o", "added_tokens_decoder", 0},
    {KIN_ALL, MEMBER_TYPED, "tl", "chat_template", 0},
    {KIN_ALL, MEMBER_TYPED, "l", "additional_special_tokens", 0},
    {KIN_ALL, MEMBER_TYPED, "lo", "extra_special_tokens", 0},
    {KIN_ALL, MEMBER_WANTED, "[false]",
     "split_special_tokens do_lower_case remove_space encode_special_tokens fix_mistral_regex "
     "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
     0},
    {KIN_ALL, MEMBER_WANTED, "[\"replace\"]", "errors", 0},
    {KIN_ALL, MEMBER_WANTED, "[]", "sp_model_kwargs", 0},
    {KIN_ALL, MEMBER_NOTHING, "the tokenizer's own steps say it", "add_prefix_space from_slow",
     0}, /* model_members.c compares the first with them */
    {KIN_ALL, MEMBER_NOTHING, "answers are given as their tokens spell them",
     "clean_up_tokenization_spaces spaces_between_special_tokens", 0},
    {KIN_ALL, MEMBER_NOTHING, "texts are neither cut nor padded",
     "model_max_length max_len max_length padding_side truncation_side truncation_strategy stride "
     "pad_to_multiple_of pad_token_type_id truncation padding max_lenght",
     0},
    {KIN_ALL, MEMBER_NOTHING, "of encoders", "sep_token cls_token mask_token num_image_tokens", 0},
    {KIN_ALL, MEMBER_NOTHING, "names and origins",
     "name_or_path auto_map use_fast tokenizer_file vocab_file merges_file special_tokens_map_file "
     "added_tokens_file tokenizer_type processor_class trust_remote_code token device_map "
     "init_inputs backend is_local local_files_only files_loaded _commit_hash "
     "transformers_version verbose",
     0},
    {KIN_ALL, MEMBER_NOTHING, "only what a text means to a library",
     "model_input_names use_default_system_prompt return_token_type_ids response_template "
     "response_schema chat_control_tokens model_specific_special_tokens",
     0},
    {KIN_ALL, MEMBER_NOTHING, "of pictures and sound, whose tokens are in the vocabulary",
     "image_token audio_token video_token vision_bos_token vision_eos_token boi_token eoi_token "
     "image_break_token image_end_token",
     0},
    {0, 0, NULL, NULL, 0},
};

const struct member_row members_special[] = {
    {KIN_ALL, MEMBER_READ, "to", "bos_token eos_token unk_token pad_token", 0},
    {KIN_ALL, MEMBER_TYPED, "l", "additional_special_tokens", 0},
    {KIN_ALL, MEMBER_TYPED, "lo", "extra_special_tokens", 0},
    {KIN_ALL, MEMBER_NOTHING, "of encoders", "sep_token cls_token mask_token", 0},
    {KIN_ALL, MEMBER_NOTHING, "of pictures and sound, whose tokens are in the vocabulary",
     "image_token audio_token video_token vision_bos_token vision_eos_token boi_token eoi_token "
     "image_break_token image_end_token",
     0},
    {0, 0, NULL, NULL, 0},
};
