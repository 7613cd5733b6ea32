/* SPDX-License-Identifier: BSL-1.0 */
/* See opencl.h. */
#define CL_TARGET_OPENCL_VERSION 120
#include "opencl.h"

#include <stdio.h>
#include <stdlib.h>

#include <CL/cl.h>

#define PLATFORMS_MOST 16
/* Work-items of a group. A CPU's device compiles a kernel for each size of groups that it meets, so this
 * stays the same, and those beyond a row or a plane do nothing. */
#define ROW_ITEMS 64 /* along a row, where each computes one node */
#define ROWS 16      /* of a CPU, where each computes a row, in vectors */

struct device {
    cl_device_id id;
    cl_device_type type;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    cl_mem array[2]; /* as the body's, from a plane and a row before the first node inside */
    size_t calls;    /* that are answered as they are; then one fails */
    char name[96];
    char failed[64];
};

/* A work-item computes a node and those in its row that are STRIDE apart. */
static const char source[] =
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "__kernel void sweep(__global const double *restrict from, __global double *restrict to,\n"
    "                    ulong first, ulong nodes, ulong rows, ulong row, ulong plane,\n"
    "                    double keep, double rate)\n"
    "{\n"
    "    if (get_global_id(1) >= rows)\n"
    "        return;\n"
    "    ulong line = first + get_global_id(1) * row + get_global_id(2) * plane;\n"
    "    for (ulong x = get_global_id(0); x < nodes; x += STRIDE) {\n"
    "        ulong at = line + x;\n"
    "        to[at] = keep * from[at] + rate * ((from[at - 1] + from[at + 1]) +\n"
    "                                           (from[at - row] + from[at + row]) +\n"
    "                                           (from[at - plane] + from[at + plane]));\n"
    "    }\n"
    "}\n";

/* ---- calls ---- */

/* True if the call went well; else the device is lost. */
static bool went(struct device *device, const char *call, cl_int status)
{
    if (device->calls == 0)
        status = CL_OUT_OF_RESOURCES;
    else
        device->calls--;
    if (status != CL_SUCCESS && !*device->failed)
        snprintf(device->failed, sizeof(device->failed), "%s: error %d", call, (int)status);
    return status == CL_SUCCESS;
}

static bool lost(const struct device *device)
{
    return *device->failed != '\0';
}

bool device_is_cpu(const struct device *device)
{
    return device->type == CL_DEVICE_TYPE_CPU;
}

const char *device_name(const struct device *device)
{
    return device->name;
}

const char *device_failed(const struct device *device)
{
    return device->failed;
}

/* ---- which device ---- */

/* True if there is one of these types: of the first platform that has one. */
static bool find_type(struct device *device, const cl_platform_id *platforms, cl_uint count,
                      cl_device_type type)
{
    for (cl_uint p = 0; p < count; p++) {
        cl_device_fp_config doubles = 0;

        if (clGetDeviceIDs(platforms[p], type, 1, &device->id, NULL) == CL_SUCCESS &&
            clGetDeviceInfo(device->id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(doubles), &doubles,
                            NULL) == CL_SUCCESS &&
            doubles != 0) {
            device->type = type;
            return true;
        }
    }
    return false;
}

static bool find(struct device *device, enum device_kind kind)
{
    static const cl_device_type types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR,
                                           CL_DEVICE_TYPE_CPU};
    cl_platform_id platforms[PLATFORMS_MOST];
    cl_uint count = 0;

    if (!went(device, "clGetPlatformIDs", clGetPlatformIDs(PLATFORMS_MOST, platforms, &count)))
        return false;
    count = count < PLATFORMS_MOST ? count : PLATFORMS_MOST;
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        bool wanted =
            kind == DEVICE_ANY || (kind == DEVICE_GPU && t == 0) || (kind == DEVICE_CPU && t == 2);

        if (wanted && find_type(device, platforms, count, types[t]))
            return true;
    }
    return went(device, "no such device", CL_DEVICE_NOT_FOUND);
}

/* ---- making ---- */

static bool make_kernel(struct device *device)
{
    const char *text = source;
    cl_int status;

    device->program = clCreateProgramWithSource(device->context, 1, &text, NULL, &status);
    if (!went(device, "clCreateProgramWithSource", status))
        return false;
    status = clBuildProgram(device->program, 1, &device->id,
                            device_is_cpu(device) ? "-DSTRIDE=1" : "-DSTRIDE=nodes", NULL, NULL);
    if (!went(device, "clBuildProgram", status))
        return false;
    device->kernel = clCreateKernel(device->program, "sweep", &status);
    return went(device, "clCreateKernel", status);
}

static bool make(struct device *device, const struct body *body)
{
    size_t bytes = (body->nodes[Z] + 2) * body->plane * sizeof(double);
    const double zero = 0;
    cl_int status;

    clGetDeviceInfo(device->id, CL_DEVICE_NAME, sizeof(device->name), device->name, NULL);
    device->context = clCreateContext(NULL, 1, &device->id, NULL, NULL, &status);
    if (!went(device, "clCreateContext", status))
        return false;
    device->queue = clCreateCommandQueue(device->context, device->id, 0, &status);
    if (!went(device, "clCreateCommandQueue", status) || !make_kernel(device))
        return false;
    for (int i = 0; i < 2; i++) {
        device->array[i] = clCreateBuffer(device->context, CL_MEM_READ_WRITE, bytes, NULL, &status);
        if (!went(device, "clCreateBuffer", status))
            return false;
        status = clEnqueueFillBuffer(device->queue, device->array[i], &zero, sizeof(zero), 0, bytes,
                                     0, NULL, NULL);
        if (!went(device, "clEnqueueFillBuffer", status))
            return false;
    }
    /* the first use of a kernel takes longer: not in a step */
    return device_sweep(device, body, 0, 0, 1) && device_finish(device);
}

struct device *device_open(enum device_kind kind, const struct body *body, size_t calls,
                           char why[128])
{
    struct device *device = calloc(1, sizeof(*device));

    snprintf(why, 128, "not enough memory");
    if (!device)
        return NULL;
    device->calls = SIZE_MAX;
    if (find(device, kind) && make(device, body)) {
        device->calls = calls;
        return device;
    }
    snprintf(why, 128, "%s", device->failed);
    device_close(device);
    return NULL;
}

void device_close(struct device *device)
{
    if (!device)
        return;
    if (device->queue)
        clReleaseCommandQueue(device->queue);
    for (int i = 0; i < 2; i++)
        if (device->array[i])
            clReleaseMemObject(device->array[i]);
    if (device->kernel)
        clReleaseKernel(device->kernel);
    if (device->program)
        clReleaseProgram(device->program);
    if (device->context)
        clReleaseContext(device->context);
    free(device);
}

/* ---- planes ---- */

/* Doubles from the beginning of a device's array to a plane with the rows around it. */
static size_t plane_at(const struct body *body, size_t z)
{
    return (z + 1) * body->plane;
}

bool device_write(struct device *device, const struct body *body, size_t step, size_t first,
                  size_t end)
{
    const double *from = body_after(body, step) + first * body->plane - body->row;

    return !lost(device) &&
           went(device, "clEnqueueWriteBuffer",
                clEnqueueWriteBuffer(device->queue, device->array[step % 2], CL_FALSE,
                                     plane_at(body, first) * sizeof(double),
                                     (end - first) * body->plane * sizeof(double), from, 0, NULL,
                                     NULL));
}

bool device_read(struct device *device, const struct body *body, size_t step, size_t first,
                 size_t end, double *array)
{
    double *to = array + first * body->plane - body->row;

    return !lost(device) &&
           went(device, "clEnqueueReadBuffer",
                clEnqueueReadBuffer(device->queue, device->array[step % 2], CL_FALSE,
                                    plane_at(body, first) * sizeof(double),
                                    (end - first) * body->plane * sizeof(double), to, 0, NULL,
                                    NULL));
}

static bool set_arguments(struct device *device, const struct body *body, size_t step, size_t first)
{
    const cl_ulong begin = plane_at(body, first) + body->row, nodes = body->nodes[X];
    const cl_ulong rows = body->nodes[Y], row = body->row, plane = body->plane;
    const double keep = 1 - 6 * body->rate;
    const struct {
        size_t bytes;
        const void *value;
    } arguments[] = {
        {sizeof(cl_mem), &device->array[step % 2]},
        {sizeof(cl_mem), &device->array[(step + 1) % 2]},
        {sizeof(begin), &begin},
        {sizeof(nodes), &nodes},
        {sizeof(rows), &rows},
        {sizeof(row), &row},
        {sizeof(plane), &plane},
        {sizeof(keep), &keep},
        {sizeof(body->rate), &body->rate},
    };

    for (cl_uint a = 0; a < sizeof(arguments) / sizeof(arguments[0]); a++)
        if (!went(device, "clSetKernelArg",
                  clSetKernelArg(device->kernel, a, arguments[a].bytes, arguments[a].value)))
            return false;
    return true;
}

static size_t whole(size_t items, size_t group)
{
    return (items + group - 1) / group * group;
}

bool device_sweep(struct device *device, const struct body *body, size_t step, size_t first,
                  size_t end)
{
    bool cpu = device_is_cpu(device);
    const size_t local[3] = {cpu ? 1 : ROW_ITEMS, cpu ? ROWS : 1, 1};
    const size_t global[3] = {cpu ? 1 : whole(body->nodes[X], ROW_ITEMS),
                              whole(body->nodes[Y], local[Y]), end - first};

    return !lost(device) && set_arguments(device, body, step, first) &&
           went(device, "clEnqueueNDRangeKernel",
                clEnqueueNDRangeKernel(device->queue, device->kernel, 3, NULL, global, local, 0,
                                       NULL, NULL));
}

bool device_finish(struct device *device)
{
    return !lost(device) && went(device, "clFinish", clFinish(device->queue));
}

void device_wait(struct device *device)
{
    clFinish(device->queue);
}
