/* tools/kbench/plan.h: what the CUDA backend would launch at the shapes of the reference models, and what of a GPU that
 * could use. The launches are the backend's own: it runs on the emulated device, which shows them and runs none. */
#pragma once

/* device: a name of worker/device/device.c. code: a file that tests/gpu/sass.py --registers wrote, or NULL: nothing is said of
 * registers and of bytes under way then. only: a part of the model's name, or NULL. Answers an exit status. */
int plan_print(const char *device, const char *code, const char *only);
