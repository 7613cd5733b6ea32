/* SPDX-License-Identifier: BSL-1.0 */
/*
 * The contents of a copy's data. Each relocated word is either the same in all copies, and stands
 * in the image, or is a distance from the copy's base, and stands in a list. Functions that choose
 * an implementation (STT_GNU_IFUNC) run once, in the first copy.
 */
#include <sys/mman.h>

#include "loader.h"

#define PAGE 4096u

/* The image's word at an address, or NULL. */
static char *word_at(struct umbra_image *image, uint64_t at)
{
    struct um_part *parts[] = {&image->data, &image->extra};

    for (unsigned i = 0; i < 2; i++)
        if (at >= parts[i]->at && at - parts[i]->at < parts[i]->bytes &&
            8 <= parts[i]->bytes - (at - parts[i]->at))
            return parts[i]->content + (at - parts[i]->at);
    return NULL;
}

static int set_fixed(struct umbra_image *image, uint64_t at, uint64_t value)
{
    char *word = word_at(image, at);

    if (!word)
        return um_refuse(image, "has a relocation outside of its data");
    memcpy(word, &value, sizeof(value));
    return 0;
}

static int set_based(struct umbra_image *image, uint64_t at, uint64_t value)
{
    struct um_based *based;

    if (!word_at(image, at))
        return um_refuse(image, "has a relocation outside of its data");
    based = um_array_add(&image->based);
    if (!based)
        return -ENOMEM;
    *based = (struct um_based){at, value};
    return 0;
}

static int set_resolved(struct umbra_image *image, uint64_t at, uint64_t resolver)
{
    struct um_based *based;

    if (!word_at(image, at) || !um_elf_in_text(image, resolver)) /* it is called */
        return um_refuse(image, "has a relocation outside of its data");
    based = um_array_add(&image->resolvers);
    if (!based)
        return -ENOMEM;
    *based = (struct um_based){at, resolver};
    return 0;
}

static int set_value(struct umbra_image *image, uint64_t at, const struct um_value *value,
                     int64_t addend)
{
    if (value->resolver)
        return set_resolved(image, at, value->value);
    if (value->relative)
        return set_based(image, at, value->value + (uint64_t)addend);
    return set_fixed(image, at, value->value + (uint64_t)(value->value ? addend : 0));
}

/* ---- thread-locals ---- */

/* The distance of a thread-local from the thread pointer. */
static int offset_of(const struct umbra_image *image, const struct um_value *value,
                     uint64_t *offset)
{
    int error = 0;

    if (value->relative)
        *offset = value->value - image->tls_bytes;
    else
        error = um_tls_offset((const void *)(uintptr_t)value->value, offset);
    return error ? um_refuse(image, "thread-local %.80s of a library loaded late", value->name) : 0;
}

static int set_thread(struct umbra_image *image, const Elf64_Rela *rela,
                      const struct um_value *value)
{
    uint64_t module = UM_TLS_OWN, offset = value->value;
    uint32_t type = ELF64_R_TYPE(rela->r_info);
    int error;

    if (type == R_X86_64_TPOFF64 || type == R_X86_64_TLSDESC) {
        error = offset_of(image, value, &offset);
        if (error == 0 && type == R_X86_64_TLSDESC)
            error = set_fixed(image, rela->r_offset, (uintptr_t)um_tlsdesc_fixed);
        return error ? error
                     : set_fixed(image, rela->r_offset + (type == R_X86_64_TLSDESC ? 8 : 0),
                                 offset + (uint64_t)rela->r_addend);
    }
    if (!value->relative &&
        um_tls_module((const void *)(uintptr_t)value->value, &module, &offset) != 0)
        return um_refuse(image, "thread-local %.80s of a library is not found", value->name);
    if (type == R_X86_64_DTPMOD64)
        return set_fixed(image, rela->r_offset, module);
    return set_fixed(image, rela->r_offset, offset + (uint64_t)rela->r_addend);
}

/* ---- tables ---- */

static int relocate_one(struct umbra_image *image, const Elf64_Rela *rela)
{
    uint32_t type = ELF64_R_TYPE(rela->r_info);
    struct um_value value;
    int error;

    if (type == R_X86_64_NONE || type == R_X86_64_COPY) /* copies: own_fill() */
        return 0;
    if (type == R_X86_64_RELATIVE)
        return set_based(image, rela->r_offset, (uint64_t)rela->r_addend);
    if (type == R_X86_64_IRELATIVE)
        return set_resolved(image, rela->r_offset, (uint64_t)rela->r_addend);
    error = um_resolve(image, ELF64_R_SYM(rela->r_info), &value);
    if (error != 0)
        return error;
    switch (type) {
    case R_X86_64_64:
        return set_value(image, rela->r_offset, &value, rela->r_addend);
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
        return set_value(image, rela->r_offset, &value, 0);
    case R_X86_64_TPOFF64:
    case R_X86_64_DTPMOD64:
    case R_X86_64_DTPOFF64:
    case R_X86_64_TLSDESC:
        return set_thread(image, rela, &value);
    default:
        return um_refuse(image, "has a relocation of unknown type %u", type);
    }
}

static int relocate_table(struct umbra_image *image, uint64_t at, uint64_t bytes)
{
    const Elf64_Rela *rela = um_elf_at(image, at, bytes);
    int error = 0;

    if (!rela && bytes > 0)
        return um_refuse(image, "damaged: its relocations are not in it");
    for (size_t i = 0; i < bytes / sizeof(*rela) && error == 0; i++)
        error = relocate_one(image, &rela[i]);
    return error;
}

static int relocate_word(struct umbra_image *image, uint64_t at)
{
    const char *word = word_at(image, at);
    uint64_t value = 0;

    if (word)
        memcpy(&value, word, sizeof(value));
    return set_based(image, at, value);
}

/* The packed table: an address, or with bit 0 a map of which of the 63 words behind it. */
static int relocate_packed(struct umbra_image *image)
{
    size_t count = image->dynamic.relr_bytes / 8;
    const uint64_t *entry = um_elf_at(image, image->dynamic.relr, image->dynamic.relr_bytes);
    uint64_t at = 0;
    int error = 0;

    if (!entry && count > 0)
        return um_refuse(image, "damaged: its relocations are not in it");
    for (size_t i = 0; i < count && error == 0; i++) {
        if ((entry[i] & 1) == 0) {
            error = relocate_word(image, entry[i]);
            at = entry[i] + 8;
            continue;
        }
        for (unsigned bit = 1; bit < 64 && error == 0; bit++)
            if (entry[i] >> bit & 1)
                error = relocate_word(image, at + (bit - 1) * 8);
        at += (uint64_t)63 * 8;
    }
    return error;
}

/* ---- contents ---- */

/* The data as it is in the file. */
static int contents_read(struct umbra_image *image)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image->file;
    const Elf64_Phdr *s = (const Elf64_Phdr *)(image->file + header->e_phoff);

    image->data.bytes = (image->data_end - image->data.at + 7) & ~(uint64_t)7;
    image->data.content = calloc(1, image->data.bytes);
    image->extra.content = calloc(1, image->extra.bytes + 8);
    if (!image->data.content || !image->extra.content)
        return -ENOMEM;
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (s[i].p_type == PT_LOAD && (s[i].p_flags & PF_W))
            memcpy(image->data.content + (s[i].p_vaddr - image->data.at),
                   image->file + s[i].p_offset, s[i].p_filesz);
    return 0;
}

/* The variable of the child that is a copy of the library's at an address, or NULL. */
static const struct um_own *own_at(const struct umbra_image *image, uint64_t address)
{
    const struct um_own *own = image->own.first;

    for (size_t i = 0; i < image->own.count; i++)
        if (address - (uintptr_t)own[i].source < own[i].bytes)
            return &own[i];
    return NULL;
}

/* C++ streams point into themselves and to each other. */
static int own_pointers(struct umbra_image *image, const struct um_own *own)
{
    int error = 0;

    for (uint64_t i = 0; i + 8 <= own->bytes && error == 0; i += 8) {
        const struct um_own *to;
        uint64_t value;

        memcpy(&value, own->source + i, sizeof(value));
        to = own_at(image, value);
        if (to)
            error = set_based(image, own->at + i, to->at + (value - (uintptr_t)to->source));
    }
    return error;
}

static int own_fill(struct umbra_image *image)
{
    const struct um_own *own = image->own.first;
    int error = 0;

    for (size_t i = 0; i < image->own.count && error == 0; i++) {
        struct um_part *part = own[i].at >= image->extra.at ? &image->extra : &image->data;

        memcpy(part->content + (own[i].at - part->at), own[i].source, own[i].bytes);
        if (strncmp(own[i].name, "_ZSt", 4) == 0)
            error = own_pointers(image, &own[i]);
    }
    return error;
}

/* As in a process that has not called getopt(). */
static void variables_reset(struct umbra_image *image)
{
    static const int initial[] = {[UM_OPTIND] = 1, [UM_OPTERR] = 1, [UM_OPTOPT] = '?'};

    for (int i = UM_OPTARG; i <= UM_OPTOPT; i++) {
        uint64_t at = image->variable[i];
        struct um_part *part = at >= image->extra.at ? &image->extra : &image->data;

        if (at && i == UM_OPTARG)
            memset(part->content + (at - part->at), 0, 8);
        else if (at)
            memcpy(part->content + (at - part->at), &initial[i], sizeof(int));
    }
}

int um_relocate(struct umbra_image *image)
{
    const struct um_dynamic *d = &image->dynamic;
    int error = contents_read(image);

    image->based.size = image->resolvers.size = sizeof(struct um_based);
    image->span = (image->extra.at + image->extra.bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    if (error == 0)
        error = relocate_packed(image);
    if (error == 0)
        error = own_fill(image);
    if (error == 0)
        variables_reset(image);
    if (error == 0)
        error = relocate_table(image, d->rela, d->rela_bytes);
    if (error == 0)
        error = relocate_table(image, d->jump, d->jump_bytes);
    return error;
}

/* Runs the functions that choose, in a copy. All other words are in place. */
int um_resolvers_run(struct umbra_image *image)
{
    const struct um_based *resolver = image->resolvers.first;
    struct um_image_copy *copy;
    int error = 0;

    if (image->resolvers.count == 0)
        return 0;
    copy = um_image_copy_take(image);
    if (!copy)
        return -ENOMEM;
    um_image_copy_fill(image, copy);
    for (size_t i = 0; i < image->resolvers.count && error == 0; i++) {
        uint64_t address = (uintptr_t)copy->base + resolver[i].value;
        uint64_t chosen = ((uint64_t(*)(void))(uintptr_t)address)();
        uint64_t at = chosen - (uintptr_t)copy->base;

        error = at < image->span ? set_based(image, resolver[i].at, at)
                                 : set_fixed(image, resolver[i].at, chosen);
    }
    um_image_copy_put(image, copy);
    return error;
}
