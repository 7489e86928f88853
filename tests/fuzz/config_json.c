/* Any texts as config.json, generation_config.json and quantize_config.json, divided by bytes of
 * zero. What is accepted must pass the check of the whole. */
#include "base/json/json_text.h"
#include "model/weights/config/config.h"
#include "model/weights/config/config_hub.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes the text before the next zero off the front. */
static json_t *next_object(const char **at, const char *end, struct error *error) {
    json_t *object = NULL;
    if (*at >= end)
        return NULL;
    const char *stop = memchr(*at, 0, (size_t)(end - *at));
    struct span text = {*at, (size_t)((stop ? stop : end) - *at)};
    *at += text.n + 1;
    return json_text_parse(text, "fuzz", &json_limits_config, &object, error) == STATUS_OK ? object
                                                                                           : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct config_hub hub;
    struct model_config config;
    struct error error;
    const char *at = (const char *)data;
    const char *end = at + size;
    strcpy(hub.config_file, "config.json");
    strcpy(hub.generation_file, "generation_config.json");
    strcpy(hub.quantize_file, "quantize_config.json");
    hub.config = next_object(&at, end, &error);
    hub.generation = next_object(&at, end, &error);
    hub.quantize = next_object(&at, end, &error);
    if (hub.config && config_from_hub(&hub, &config, &error) == STATUS_OK &&
        (config_check(&config, &error) != STATUS_OK || config.n_stop_ids > CONFIG_STOPS_MAX))
        abort();
    config_hub_fini(&hub);
    return 0;
}
