/* router/core/stage.h: the stages of a request's way: their names, and what a stage answers.
 *
 * The shell takes a call through parse, tokenize and admit, waits in stream for its sequences, and
 * ends in finish (router/call/stages.c); the core takes each sequence from admit to its own finish
 * (path.c). */
#pragma once

enum request_stage {
    STAGE_PARSE,
    STAGE_TOKENIZE,
    STAGE_ADMIT,
    STAGE_PLACE,
    STAGE_DISPATCH,
    STAGE_STREAM,
    STAGE_FINISH,
    STAGE_COUNT
};

/* As logs and metrics have it. */
const char *stage_name(enum request_stage stage);

/* What a stage of the core answers. */
enum turn {
    TURN_NEXT,  /* done: the next stage at once */
    TURN_LATER, /* done: the next stage when its turn comes */
    TURN_WAIT,  /* this stage again, after some event */
    TURN_FULL,  /* the same, and for all behind it in the queue, unless place_suits_others() */
    TURN_ENDED, /* its outcome is decided: the end of the event runs the last stage */
};
