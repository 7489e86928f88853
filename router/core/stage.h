/* router/core/stage.h: the stages of a request's way (path.c has the table) and their answers. */
#pragma once

/* What a stage answers. */
enum turn {
    TURN_NEXT,  /* done: the next stage at once */
    TURN_LATER, /* done: the next stage when its turn comes */
    TURN_WAIT,  /* this stage again, after some event */
    TURN_FULL,  /* the same, and nobody behind it in the queue would fare better */
    TURN_ENDED, /* its outcome is decided: the end of the event runs the last stage */
};

enum stage {
    STAGE_ACCEPT,
    STAGE_PARSE,
    STAGE_TOKENIZE,
    STAGE_ADMIT,
    STAGE_PLACE,
    STAGE_DISPATCH,
    STAGE_STREAM,
    STAGE_FINISH,
    STAGE_COUNT
};
