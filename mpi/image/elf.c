/* SPDX-License-Identifier: BSL-1.0 */
/* Reads an executable: its segments and its dynamic section. Refuses what cannot be held. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader.h"

#define LOADER_NAME "ld-linux-x86-64.so.2"
#define PAGE 4096u

int um_refused(const char *path, const char *format, ...)
{
    char text[200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return um_why(-ENOEXEC, "%.80s: %s", path, text);
}

static const Elf64_Ehdr *header_of(const struct umbra_image *image)
{
    return (const Elf64_Ehdr *)image->file;
}

static const Elf64_Phdr *segments_of(const struct umbra_image *image)
{
    return (const Elf64_Phdr *)(image->file + header_of(image)->e_phoff);
}

/* The segment of a type, or NULL. */
static const Elf64_Phdr *segment(const struct umbra_image *image, uint32_t type)
{
    const Elf64_Phdr *segments = segments_of(image);

    for (unsigned i = 0; i < header_of(image)->e_phnum; i++)
        if (segments[i].p_type == type)
            return &segments[i];
    return NULL;
}

const void *um_elf_at(const struct umbra_image *image, uint64_t at, uint64_t bytes)
{
    const Elf64_Phdr *segments = segments_of(image);

    for (unsigned i = 0; i < header_of(image)->e_phnum; i++) {
        const Elf64_Phdr *s = &segments[i];

        if (s->p_type == PT_LOAD && at >= s->p_vaddr && at - s->p_vaddr <= s->p_filesz &&
            bytes <= s->p_filesz - (at - s->p_vaddr))
            return image->file + s->p_offset + (at - s->p_vaddr);
    }
    return NULL;
}

bool um_elf_in_text(const struct umbra_image *image, uint64_t at)
{
    const Elf64_Phdr *s = segments_of(image);

    for (unsigned i = 0; i < header_of(image)->e_phnum; i++)
        if (s[i].p_type == PT_LOAD && (s[i].p_flags & PF_X) && at - s[i].p_vaddr < s[i].p_filesz)
            return true;
    return false;
}

const char *um_elf_string(const struct umbra_image *image, uint64_t offset)
{
    const char *text = um_elf_at(image, image->dynamic.strings, image->dynamic.strings_bytes);

    return text && offset < image->dynamic.strings_bytes ? text + offset : "";
}

/* ---- what kind of file ---- */

static int file_map(struct umbra_image *image)
{
    struct stat about;
    void *file;

    image->fd = open(image->path, O_RDONLY | O_CLOEXEC);
    if (image->fd < 0 || fstat(image->fd, &about) != 0)
        return um_why(-errno, "%.80s: %s", image->path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return um_refuse(image, "no regular file");
    if ((size_t)about.st_size < sizeof(Elf64_Ehdr))
        return um_refuse(image, "no ELF file, as scripts are not: too short");
    image->file_bytes = (size_t)about.st_size;
    file = mmap(NULL, image->file_bytes, PROT_READ, MAP_PRIVATE, image->fd, 0);
    if (file == MAP_FAILED)
        return um_why(-errno, "%.80s: %s", image->path, strerror(errno));
    image->file = file;
    return 0;
}

static int check_kind(const struct umbra_image *image)
{
    const Elf64_Ehdr *header = header_of(image);

    if (memcmp(image->file, "#!", 2) == 0)
        return um_refuse(image, "a script");
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return um_refuse(image, "no ELF file");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64)
        return um_refuse(image, "for another processor");
    if (header->e_type == ET_EXEC)
        return um_refuse(image, "not position-independent (link with -pie)");
    if (header->e_type != ET_DYN || header->e_entry == 0)
        return um_refuse(image, "no executable");
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff % 8 != 0 ||
        header->e_phoff > image->file_bytes ||
        header->e_phnum > (image->file_bytes - header->e_phoff) / sizeof(Elf64_Phdr))
        return um_refuse(image, "damaged: its program headers are not in it");
    return 0;
}

static int check_interpreter(const struct umbra_image *image)
{
    const Elf64_Phdr *interp = segment(image, PT_INTERP);
    const Elf64_Phdr *stack = segment(image, PT_GNU_STACK);
    const char *name;

    if (!segment(image, PT_DYNAMIC) || !interp)
        return um_refuse(image, "statically linked");
    if (interp->p_offset > image->file_bytes || interp->p_filesz == 0 ||
        interp->p_filesz > image->file_bytes - interp->p_offset ||
        image->file[interp->p_offset + interp->p_filesz - 1] != 0)
        return um_refuse(image, "damaged: its interpreter is not in it");
    name = image->file + interp->p_offset;
    if (strcmp(strrchr(name, '/') ? strrchr(name, '/') + 1 : name, LOADER_NAME) != 0)
        return um_refuse(image, "for another C library (%.60s)", name);
    if (stack && (stack->p_flags & PF_X))
        return um_refuse(image, "wants an executable stack");
    return 0;
}

/* ---- segments ---- */

/* A read-only segment: one mapping with the one before, if it is placed alike. */
static int text_add(struct umbra_image *image, const Elf64_Phdr *s)
{
    uint64_t at = s->p_vaddr & ~(uint64_t)(PAGE - 1);
    uint64_t offset = s->p_offset & ~(uint64_t)(PAGE - 1);
    uint64_t end = (s->p_vaddr + s->p_filesz + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    struct um_mapped *last = image->texts ? &image->text[image->texts - 1] : NULL;

    if (s->p_memsz != s->p_filesz)
        return um_refuse(image, "has read-only memory that is not in the file");
    if (last && at - offset == last->at - last->offset) {
        last->bytes = end - last->at;
        return 0;
    }
    if (image->texts == UM_TEXTS_MOST)
        return um_refuse(image, "has more than %d read-only segments", UM_TEXTS_MOST);
    image->text[image->texts++] = (struct um_mapped){at, offset, end - at};
    return 0;
}

static int segment_add(struct umbra_image *image, const Elf64_Phdr *s)
{
    if (s->p_offset > image->file_bytes || s->p_filesz > image->file_bytes - s->p_offset ||
        s->p_filesz > s->p_memsz || s->p_vaddr % PAGE != s->p_offset % PAGE ||
        s->p_vaddr > INT64_MAX / 4 || s->p_memsz > INT64_MAX / 4 || s->p_vaddr < image->end)
        return um_refuse(image, "damaged: a segment is not in it");
    image->end = s->p_vaddr + s->p_memsz;
    if ((s->p_flags & PF_W) && (s->p_flags & PF_X))
        return um_refuse(image, "has a segment that is writable and executable");
    if (!(s->p_flags & PF_W))
        return image->data.bytes ? um_refuse(image, "has read-only segments after its data")
                                 : text_add(image, s);
    if (image->data.bytes == 0)
        image->data.at = s->p_vaddr & ~(uint64_t)15;
    image->data_end = s->p_vaddr + s->p_filesz;
    image->data.bytes = image->data_end - image->data.at;
    return 0;
}

static int check_text(const struct umbra_image *image)
{
    uint64_t data_page = image->data.at & ~(uint64_t)(PAGE - 1);

    if (image->texts == 0 || image->data.bytes == 0)
        return um_refuse(image, "has no text or no data");
    for (unsigned i = 0; i < image->texts; i++)
        if (image->text[i].at + image->text[i].bytes >
            (i + 1 < image->texts ? image->text[i + 1].at : data_page))
            return um_refuse(image, "damaged: its segments overlap");
    return 0;
}

static int segments_read(struct umbra_image *image)
{
    const Elf64_Phdr *segments = segments_of(image);
    const Elf64_Phdr *frames = segment(image, PT_GNU_EH_FRAME);
    int error = 0;

    for (unsigned i = 0; i < header_of(image)->e_phnum && error == 0; i++)
        if (segments[i].p_type == PT_LOAD)
            error = segment_add(image, &segments[i]);
    if (error == 0)
        error = check_text(image);
    if (error != 0)
        return error;
    image->entry = header_of(image)->e_entry;
    if (!um_elf_in_text(image, image->entry))
        return um_refuse(image, "damaged: its first instruction is not in it");
    image->headers_count = header_of(image)->e_phnum;
    image->headers = image->text[0].at + header_of(image)->e_phoff;
    image->frames = frames ? frames->p_vaddr : 0;
    return 0;
}

static int thread_locals_read(struct umbra_image *image)
{
    const Elf64_Phdr *tls = segment(image, PT_TLS);

    if (!tls || tls->p_memsz == 0)
        return 0;
    if (tls->p_align > UM_ROOM_ALIGN || tls->p_vaddr % (tls->p_align ? tls->p_align : 1) != 0)
        return um_refuse(image, "thread-locals aligned to %llu bytes; there is room for %d",
                         (unsigned long long)tls->p_align, UM_ROOM_ALIGN);
    if (tls->p_memsz > UM_ROOM_BYTES - UM_ROOM_ALIGN)
        return um_refuse(image, "thread-locals of %llu bytes; there is room for %d",
                         (unsigned long long)tls->p_memsz, UM_ROOM_BYTES - UM_ROOM_ALIGN);
    if (tls->p_filesz > tls->p_memsz || !um_elf_at(image, tls->p_vaddr, tls->p_filesz))
        return um_refuse(image, "damaged: its thread-locals are not in it");
    image->tls_image = tls->p_vaddr;
    image->tls_filled = tls->p_filesz;
    image->tls_bytes =
        tls->p_align ? (tls->p_memsz + tls->p_align - 1) & -tls->p_align : tls->p_memsz;
    return 0;
}

/* ---- the dynamic section ---- */

static uint64_t *dynamic_word(struct um_dynamic *d, int64_t tag)
{
    switch (tag) {
    case DT_SYMTAB:
        return &d->symbols;
    case DT_STRTAB:
        return &d->strings;
    case DT_STRSZ:
        return &d->strings_bytes;
    case DT_VERSYM:
        return &d->versions;
    case DT_VERNEED:
        return &d->needed_versions;
    case DT_VERNEEDNUM:
        return &d->needed_versions_count;
    case DT_RELA:
        return &d->rela;
    case DT_RELASZ:
        return &d->rela_bytes;
    case DT_JMPREL:
        return &d->jump;
    case DT_PLTRELSZ:
        return &d->jump_bytes;
    case 36: /* DT_RELR, which older <elf.h> lack */
        return &d->relr;
    case 35: /* DT_RELRSZ */
        return &d->relr_bytes;
    default:
        return NULL;
    }
}

static uint64_t *dynamic_start_word(struct um_dynamic *d, int64_t tag)
{
    switch (tag) {
    case DT_PREINIT_ARRAY:
        return &d->preinit;
    case DT_PREINIT_ARRAYSZ:
        return &d->preinit_bytes;
    case DT_INIT_ARRAY:
        return &d->init_array;
    case DT_INIT_ARRAYSZ:
        return &d->init_bytes;
    case DT_FINI_ARRAY:
        return &d->fini_array;
    case DT_FINI_ARRAYSZ:
        return &d->fini_bytes;
    case DT_INIT:
        return &d->init;
    case DT_FINI:
        return &d->fini;
    default:
        return NULL;
    }
}

static int check_entry(const struct umbra_image *image, const Elf64_Dyn *entry)
{
    if (entry->d_tag == DT_TEXTREL ||
        (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL)))
        return um_refuse(image, "has relocations in its text");
    if (entry->d_tag == DT_REL)
        return um_refuse(image, "has relocations of a kind that x86-64 does not use");
    return 0;
}

static int dynamic_read(struct umbra_image *image)
{
    const Elf64_Phdr *where = segment(image, PT_DYNAMIC);
    const Elf64_Dyn *entry = um_elf_at(image, where->p_vaddr, where->p_filesz);
    size_t count = where->p_filesz / sizeof(*entry);

    if (!entry)
        return um_refuse(image, "damaged: its dynamic section is not in it");
    if (count == 0 || entry[count - 1].d_tag != DT_NULL)
        return um_refuse(image, "damaged: its dynamic section does not end");
    for (size_t i = 0; i < count && entry[i].d_tag != DT_NULL; i++) {
        uint64_t *word = dynamic_word(&image->dynamic, entry[i].d_tag);
        int error = check_entry(image, &entry[i]);

        if (error != 0)
            return error;
        if (!word)
            word = dynamic_start_word(&image->dynamic, entry[i].d_tag);
        if (word)
            *word = entry[i].d_un.d_val;
    }
    if (!um_elf_at(image, image->dynamic.strings, image->dynamic.strings_bytes) ||
        image->dynamic.strings_bytes == 0 ||
        um_elf_string(image, image->dynamic.strings_bytes - 1)[0] != 0)
        return um_refuse(image, "damaged: its strings are not in it");
    return 0;
}

int um_elf_read(struct umbra_image *image)
{
    int error = file_map(image);

    if (error == 0)
        error = check_kind(image);
    if (error == 0)
        error = check_interpreter(image);
    if (error == 0)
        error = segments_read(image);
    if (error == 0)
        error = thread_locals_read(image);
    if (error == 0)
        error = dynamic_read(image);
    return error;
}
