/* SPDX-License-Identifier: BSL-1.0 */
/*
 * Symbols. A name that an executable leaves undefined is, in this order, a variable of a library
 * that the child has to itself, a child-only binding, or what the dynamic linker of this process
 * finds: in the libraries that the executable needs, or before them in this process, if this
 * process replaces a function of the C or C++ library (malloc), or if the object that holds this
 * loader defines it (MPI's functions in libumbra_mpi.so).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "loader.h"

static int defined_check(const struct umbra_image *image);

/* ---- libraries ---- */

/* Loads `name` from one of the folders of a list, in which $ORIGIN is the executable's. */
static void *library_from(const struct umbra_image *image, const char *folders, const char *name)
{
    void *handle = NULL;

    while (*folders && !handle) {
        size_t length = strcspn(folders, ":");
        bool beside = strncmp(folders, "$ORIGIN", 7) == 0 || strncmp(folders, "${ORIGIN}", 9) == 0;
        size_t skip = !beside ? 0 : folders[1] == '{' ? 9 : 7;
        char *file;

        if (asprintf(&file, "%.*s%.*s/%s", beside ? (int)(image->short_name - image->path) : 0,
                     image->path, (int)(length - skip), folders + skip, name) < 0)
            return NULL;
        if (access(file, R_OK) == 0)
            handle = dlopen(file, RTLD_NOW);
        free(file);
        folders += length + (folders[length] == ':');
    }
    return handle;
}

static const char *dynamic_text(const struct umbra_image *image, const Elf64_Dyn *entry)
{
    return um_elf_string(image, entry->d_un.d_val);
}

/* Sanitizers must be in a process from its start. Clang's are part of the executable, and in its
 * table of symbols, which stands before the strings. */
static int sanitizers_check(const struct umbra_image *image)
{
    static const char *const refused[] = {"__asan_init", "__tsan_init", "__msan_init",
                                          "__hwasan_init", "__lsan_init"};
    uint64_t end = image->dynamic.strings;

    for (uint64_t at = image->dynamic.symbols; at + sizeof(Elf64_Sym) <= end;
         at += sizeof(Elf64_Sym)) {
        const Elf64_Sym *symbol = um_elf_at(image, at, sizeof(*symbol));
        const char *name = symbol ? um_elf_string(image, symbol->st_name) : "";

        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
            if (strcmp(name, refused[i]) == 0)
                return um_refuse(image, "compiled with a sanitizer (%s)", name);
    }
    return 0;
}

/* What must not be loaded into this process. */
static int library_check(const struct umbra_image *image, const char *name)
{
    static const char *const refused[] = {"libasan.", "libtsan.", "liblsan.", "libhwasan.",
                                          "libclang_rt."};

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (strncmp(name, refused[i], strlen(refused[i])) == 0)
            return um_refuse(image, "compiled with a sanitizer (%s)", name);
    if (image->tls_bytes > 0 &&
        (strncmp(name, "libgomp.", 8) == 0 || strncmp(name, "libomp.", 7) == 0 ||
         strncmp(name, "libiomp5.", 9) == 0))
        return um_refuse(image, "uses OpenMP and has thread-locals of its own");
    if (strncmp(name, "libstdc++.", 10) == 0 && !um_exceptions_of_thread)
        return um_refuse(image, "needs a C++ runtime, and this program was linked without one");
    return 0;
}

/* All symbols are resolved at once: one that is missing would end the process when it is called. */
static void *library_open(const struct umbra_image *image, const char *folders, const char *name)
{
    void *handle = strchr(name, '/') ? NULL : library_from(image, folders, name);

    if (!handle)
        handle = dlopen(name, RTLD_NOW);
    if (!handle && !strchr(name, '/'))
        handle = library_from(image, folders, name); /* for dlerror(): if there is such a file */
    return handle;
}

static int library_load(struct umbra_image *image, const char *folders, const char *name)
{
    void **handle = um_array_add(&image->libraries);

    if (!handle)
        return -ENOMEM;
    *handle = library_open(image, folders, name);
    return *handle ? 0 : um_refuse(image, "%.150s", dlerror());
}

static const Elf64_Dyn *dynamic_of(const struct umbra_image *image)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image->file;
    const Elf64_Phdr *s = (const Elf64_Phdr *)(image->file + header->e_phoff);

    while (s->p_type != PT_DYNAMIC) /* there is one: um_elf_read() */
        s++;
    return um_elf_at(image, s->p_vaddr, s->p_filesz);
}

/* A library may need another that only the executable has a folder for. It is found once that one
 * has been loaded, as the dynamic linker does. */
static void libraries_find(const struct umbra_image *image, const Elf64_Dyn *first,
                           const char *folders)
{
    size_t missing = SIZE_MAX, before;

    do {
        before = missing;
        missing = 0;
        for (const Elf64_Dyn *entry = first; entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag == DT_NEEDED)
                missing += !library_open(image, folders, dynamic_text(image, entry));
    } while (missing > 0 && missing < before);
}

int um_libraries_load(struct umbra_image *image)
{
    const Elf64_Dyn *first = dynamic_of(image);
    const char *folders = "";
    int error = sanitizers_check(image);

    for (const Elf64_Dyn *entry = first; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_RUNPATH || (entry->d_tag == DT_RPATH && !*folders))
            folders = dynamic_text(image, entry);
    for (const Elf64_Dyn *entry = first; entry->d_tag != DT_NULL && error == 0; entry++)
        if (entry->d_tag == DT_NEEDED)
            error = library_check(image, dynamic_text(image, entry));
    if (error == 0)
        libraries_find(image, first, folders);
    for (const Elf64_Dyn *entry = first; entry->d_tag != DT_NULL && error == 0; entry++)
        if (entry->d_tag == DT_NEEDED)
            error = library_load(image, folders, dynamic_text(image, entry));
    return error ? error : defined_check(image);
}

/* ---- the process's symbols ---- */

/* True for an address in a library of the compiler's or the C library's. */
static bool of_system(const Dl_info *about)
{
    static const char *const names[] = {"libc.so",     "libm.so",   "libstdc++.so",
                                        "libgcc_s.so", "ld-linux-", "libpthread",
                                        "libc++.so",   "libdl.so",  "librt.so"};
    const char *slash = about->dli_fname ? strrchr(about->dli_fname, '/') : NULL;
    const char *name = slash ? slash + 1 : about->dli_fname;

    for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static bool of_program(const Dl_info *about)
{
    Dl_info here;

    return dladdr((void *)(uintptr_t)um_resolve, &here) != 0 && here.dli_fbase == about->dli_fbase;
}

static void *library_symbol(const struct umbra_image *image, const char *name, const char *version)
{
    void *const *handle = image->libraries.first;
    void *found = NULL;

    for (size_t i = 0; i < image->libraries.count && !found; i++)
        found = version ? dlvsym(handle[i], name, version) : dlsym(handle[i], name);
    return found;
}

/* What a name is: see above. dlvsym() does not find a function without a version that this process
 * has put in front, so both are asked. */
static void *symbol_find(const struct umbra_image *image, const char *name, const char *version)
{
    void *needed = library_symbol(image, name, version);
    void *first = dlsym(RTLD_DEFAULT, name);
    Dl_info about_needed, about_first;

    if (!needed || !first)
        return needed ? needed : first;
    if (dladdr(needed, &about_needed) == 0 || dladdr(first, &about_first) == 0 ||
        about_needed.dli_fbase == about_first.dli_fbase)
        return needed;
    return of_system(&about_needed) || of_program(&about_first) ? first : needed;
}

/* ---- the image's symbols ---- */

static const Elf64_Sym *symbol_at(const struct umbra_image *image, uint32_t index)
{
    return um_elf_at(image, image->dynamic.symbols + index * sizeof(Elf64_Sym), sizeof(Elf64_Sym));
}

/* True if the name's hash in an ELF file is 0, as that of an empty one. glibc compares such a name
 * with the names of versions that are none: null pointers. */
static bool has_no_hash(const char *name)
{
    uint32_t hash = 0;

    for (; *name; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        hash ^= hash >> 24 & 0xf0;
    }
    return (hash & 0x0fffffff) == 0;
}

/* The name of a version by its number, or NULL. */
static const char *version_named(const struct umbra_image *image, uint16_t number)
{
    uint64_t at = image->dynamic.needed_versions;

    for (uint64_t i = 0; i < image->dynamic.needed_versions_count; i++) {
        const Elf64_Verneed *library = um_elf_at(image, at, sizeof(*library));
        uint64_t version_at = library ? at + library->vn_aux : 0;

        for (unsigned k = 0; library && k < library->vn_cnt; k++) {
            const Elf64_Vernaux *version = um_elf_at(image, version_at, sizeof(*version));

            if (!version)
                return NULL;
            if (version->vna_other == number)
                return um_elf_string(image, version->vna_name);
            if (version->vna_next == 0)
                break;
            version_at += version->vna_next;
        }
        if (!library || library->vn_next == 0)
            return NULL;
        at += library->vn_next;
    }
    return NULL;
}

static const char *version_of(const struct umbra_image *image, uint32_t index)
{
    const uint16_t *number;
    const char *name;

    if (!image->dynamic.versions)
        return NULL;
    number = um_elf_at(image, image->dynamic.versions + index * sizeof(*number), sizeof(*number));
    if (!number || (*number & 0x7fff) <= 1)
        return NULL;
    name = version_named(image, *number & 0x7fff);
    return name && !has_no_hash(name) ? name : NULL;
}

static const struct um_own *own_named(const struct umbra_image *image, const char *name)
{
    const struct um_own *own = image->own.first;

    for (size_t i = 0; i < image->own.count; i++)
        if (strcmp(own[i].name, name) == 0)
            return &own[i];
    return NULL;
}

static int resolve_undefined(const struct umbra_image *image, uint32_t index,
                             const Elf64_Sym *symbol, struct um_value *value)
{
    const struct um_own *own = own_named(image, value->name);
    void *found = own ? NULL : um_binding(value->name);

    value->relative = own != NULL;
    if (own) {
        value->value = own->at;
        return 0;
    }
    if (strcmp(value->name, "argp_parse") == 0)
        return um_refuse(image, "calls argp_parse(), which may end the process");
    if (!found)
        found = symbol_find(image, value->name, version_of(image, index));
    if (!found && ELF64_ST_BIND(symbol->st_info) != STB_WEAK)
        return um_refuse(image, "undefined symbol %.100s", value->name);
    value->value = (uintptr_t)found;
    value->thread = ELF64_ST_TYPE(symbol->st_info) == STT_TLS;
    return 0;
}

int um_resolve(const struct umbra_image *image, uint32_t index, struct um_value *value)
{
    const Elf64_Sym *symbol = symbol_at(image, index);

    *value = (struct um_value){.relative = true, .name = ""};
    if (!symbol)
        return um_refuse(image, "damaged: symbol %u is not in it", index);
    if (index == 0) /* of a thread-local relocation: the module itself */
        return 0;
    value->name = um_elf_string(image, symbol->st_name);
    if (symbol->st_shndx == SHN_UNDEF)
        return resolve_undefined(image, index, symbol, value);
    value->value = symbol->st_value;
    value->relative = symbol->st_shndx != SHN_ABS;
    value->resolver = ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC;
    value->thread = ELF64_ST_TYPE(symbol->st_info) == STT_TLS;
    return 0;
}

/* ---- variables of libraries that the child has to itself ---- */

struct known {
    const char *name;
    int variable; /* enum um_variable, or -1: a stream of the C++ library */
};

static const struct known known[] = {
    {"optarg", UM_OPTARG},
    {"optind", UM_OPTIND},
    {"opterr", UM_OPTERR},
    {"optopt", UM_OPTOPT},
    {"environ", UM_ENVIRON},
    {"__environ", UM_ENVIRON},
    {"_environ", UM_ENVIRON},
    {"program_invocation_name", UM_NAME},
    {"__progname_full", UM_NAME},
    {"program_invocation_short_name", UM_SHORT_NAME},
    {"__progname", UM_SHORT_NAME},
    {"_ZSt4cout", -1},
    {"_ZSt4cerr", -1},
    {"_ZSt4clog", -1},
    {"_ZSt3cin", -1},
    {"_ZSt5wcout", -1},
    {"_ZSt5wcerr", -1},
    {"_ZSt5wclog", -1},
    {"_ZSt4wcin", -1},
};

static const struct known *known_named(const char *name)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

static bool variable_is_number(int variable)
{
    return variable == UM_OPTIND || variable == UM_OPTERR || variable == UM_OPTOPT;
}

/* The argument of object_at(). */
struct where {
    uintptr_t address;
    bool found, constant;
};

/* Notes if an object of the process holds an address, and if it is never written there once the
 * object is loaded. */
static int object_at(struct dl_phdr_info *object, size_t bytes, void *arg)
{
    struct where *where = arg;
    uintptr_t at = where->address - object->dlpi_addr;

    (void)bytes;
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *s = &object->dlpi_phdr[i];

        if (at - s->p_vaddr >= s->p_memsz)
            continue;
        if (s->p_type == PT_LOAD) {
            where->found = true;
            where->constant = where->constant || !(s->p_flags & PF_W);
        } else if (s->p_type == PT_GNU_RELRO) {
            where->constant = true;
        }
    }
    return where->found;
}

static int function_check(const struct umbra_image *image, const char *name, const void *source)
{
    Dl_info about;

    if (dladdr(source, &about) == 0 || of_system(&about) || of_program(&about))
        return 0;
    return um_refuse(image, "replaces the function %.60s of %.100s", name, about.dli_fname);
}

/* The C library writes its own, which a copy does not show. */
static bool written_by_system(const char *name)
{
    static const char *const names[] = {"signgam",    "timezone", "__timezone", "daylight",
                                        "__daylight", "tzname",   "__tzname"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The library goes on using its own variable, so the two must not be meant to be one. */
static int own_check(const struct umbra_image *image, const char *name, const void *source)
{
    struct where where = {.address = (uintptr_t)source};
    const void *needed = library_symbol(image, name, NULL);
    Dl_info about;

    if (!needed) /* the program may have the variable of a library in its own memory */
        needed = source;
    dl_iterate_phdr(object_at, &where);
    if (where.constant || known_named(name) || dladdr(needed, &about) == 0 ||
        (of_system(&about) && !written_by_system(name)) || of_program(&about))
        return 0;
    return um_refuse(image, "takes over the variable %.60s of %.100s", name, about.dli_fname);
}

static int own_add(struct umbra_image *image, const char *name, const char *source, uint64_t at,
                   uint64_t bytes)
{
    const struct known *is = known_named(name);
    struct um_own *own = um_array_add(&image->own);

    if (!own)
        return -ENOMEM;
    *own = (struct um_own){name, at, bytes, source};
    if (is && bytes < (variable_is_number(is->variable) ? sizeof(int) : sizeof(char *)))
        return um_refuse(image, "damaged: %.60s has no room", name);
    if (is && is->variable >= 0)
        image->variable[is->variable] = at;
    return own_check(image, name, source);
}

/* The name of a symbol that others would use the executable's of; NULL: it is none. */
static const char *exported(const struct umbra_image *image, const Elf64_Sym *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info), bind = ELF64_ST_BIND(symbol->st_info);
    const char *name = um_elf_string(image, symbol->st_name);

    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= SHN_LORESERVE || bind == STB_LOCAL ||
        strncmp(name, "_ZT", 3) == 0) /* types and tables of C++ are equal in each */
        return NULL;
    return type == STT_OBJECT || type == STT_TLS || (type == STT_FUNC && bind == STB_GLOBAL) ? name
                                                                                             : NULL;
}

/* What the executable and a library of its own both define is one in a process: the
 * executable's. Here the library would go on using its own. And memory that a library has
 * allocated cannot be freed by an allocator of the executable. */
static int defined_check(const struct umbra_image *image)
{
    uint64_t end = image->dynamic.strings;
    int error = 0;

    for (uint64_t at = image->dynamic.symbols; at + sizeof(Elf64_Sym) <= end && error == 0;
         at += sizeof(Elf64_Sym)) {
        const Elf64_Sym *symbol = um_elf_at(image, at, sizeof(*symbol));
        const char *name = symbol ? exported(image, symbol) : NULL;
        void *source = name && *name ? library_symbol(image, name, NULL) : NULL;

        if (source && strcmp(name, "free") == 0)
            error = um_refuse(image, "replaces malloc() and free()");
        else if (source && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC)
            error = function_check(image, name, source);
        else if (source)
            error = own_check(image, name, source);
    }
    return error;
}

/* A variable that the executable has reserved room for. */
static int own_copied(struct umbra_image *image, const Elf64_Rela *rela)
{
    uint32_t index = ELF64_R_SYM(rela->r_info);
    const Elf64_Sym *symbol = symbol_at(image, index);
    const char *name = symbol ? um_elf_string(image, symbol->st_name) : "";
    const char *source = symbol ? symbol_find(image, name, version_of(image, index)) : NULL;
    const ElfW(Sym) *defined = NULL;
    Dl_info about;

    if (!source)
        return um_refuse(image, "undefined symbol %.100s", name);
    dladdr1(source, &about, (void **)&defined, RTLD_DL_SYMENT);
    if (!defined || symbol->st_size > defined->st_size)
        return um_refuse(image, "%.60s is larger than the library's", name);
    if (rela->r_offset < image->data.at || rela->r_offset > image->end ||
        symbol->st_size > image->end - rela->r_offset)
        return um_refuse(image, "damaged: %.60s has no room", name);
    if (rela->r_offset + symbol->st_size > image->data_end)
        image->data_end = rela->r_offset + symbol->st_size;
    return own_add(image, name, source, rela->r_offset, symbol->st_size);
}

/* A known variable that it names without room: room in extra, one for all names of a variable. */
static int own_extra(struct umbra_image *image, const Elf64_Rela *rela)
{
    uint32_t index = ELF64_R_SYM(rela->r_info);
    const Elf64_Sym *symbol = symbol_at(image, index);
    const char *name = symbol ? um_elf_string(image, symbol->st_name) : "";
    const ElfW(Sym) *defined = NULL;
    const struct um_own *own = image->own.first;
    const char *source;
    Dl_info about;
    uint64_t at;

    if (!symbol || symbol->st_shndx != SHN_UNDEF || !known_named(name) || own_named(image, name))
        return 0;
    source = symbol_find(image, name, version_of(image, index));
    if (!source || dladdr1(source, &about, (void **)&defined, RTLD_DL_SYMENT) == 0 || !defined)
        return 0;
    for (size_t i = 0; i < image->own.count; i++)
        if (own[i].source == source)
            return own_add(image, name, source, own[i].at, own[i].bytes);
    at = image->extra.at + image->extra.bytes;
    image->extra.bytes += (defined->st_size + 15) & ~(uint64_t)15;
    return own_add(image, name, source, at, defined->st_size);
}

/* Calls fn for each relocation of one table. */
static int own_each(struct umbra_image *image, uint64_t at, uint64_t bytes, bool copied)
{
    const Elf64_Rela *rela = um_elf_at(image, at, bytes);
    int error = 0;

    if (!rela && bytes > 0)
        return um_refuse(image, "damaged: its relocations are not in it");
    for (size_t i = 0; i < bytes / sizeof(*rela) && error == 0; i++) {
        uint32_t type = ELF64_R_TYPE(rela[i].r_info);

        if (copied && type == R_X86_64_COPY)
            error = own_copied(image, &rela[i]);
        else if (!copied && (type == R_X86_64_GLOB_DAT || type == R_X86_64_64))
            error = own_extra(image, &rela[i]);
    }
    return error;
}

/* Before version 13 the streams of libstdc++ are set up by the first object of this class. */
static void streams_set_up(void)
{
    static char object[16];
    void (*init)(void *);
    void *found = dlsym(RTLD_DEFAULT, "_ZNSt8ios_base4InitC1Ev");

    memcpy(&init, &found, sizeof(init));
    if (found && object[0] == 0)
        init(object);
    object[0] = 1;
}

int um_own_find(struct umbra_image *image)
{
    const struct um_dynamic *d = &image->dynamic;
    int error;

    streams_set_up();
    image->own.size = sizeof(struct um_own);
    error = own_each(image, d->rela, d->rela_bytes, true);
    image->extra.at = (image->end + 15) & ~(uint64_t)15;
    if (error == 0)
        error = own_each(image, d->rela, d->rela_bytes, false);
    return error;
}
