/* SPDX-License-Identifier: MIT */
/* See xml_file.h. The scan allocates nothing and reads no global state: fit for
 * a fuzzer. */
#include "topo/xml_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sys.h"

#define REMEDY "pass an XML file written by lstopo or hwloc"

static wharf_status file_size(const char *path, int fd, size_t *size)
{
    struct stat about;
    if (fstat(fd, &about))
        return wi_fail_os(errno, NULL, "cannot look at %s", path);
    if (!S_ISREG(about.st_mode))
        return wi_fail(WHARF_ECONFIG, REMEDY, "%s is no regular file", path);
    if (about.st_size > WI_XML_BYTES)
        return wi_fail(WHARF_ELIMIT, REMEDY,
                       "%s has %lld bytes, a topology has at most %d", path,
                       (long long)about.st_size, WI_XML_BYTES);
    *size = (size_t)about.st_size;
    return WHARF_OK;
}

static wharf_status file_fill(const char *path, int fd, char *text, size_t size,
                              size_t *length)
{
    size_t got = 0;
    while (got < size) {
        ssize_t more = read(fd, text + got, size - got);
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return wi_fail_os(errno, NULL, "cannot read %s", path);
        if (!more)
            break;
        got += (size_t)more;
    }
    *length = got;
    return WHARF_OK;
}

wharf_status wi_xml_read(const char *path, char **text, size_t *length)
{
    char *made = NULL;
    size_t size = 0, got = 0;
    wharf_status status;
    /* Non-blocking, so that a FIFO cannot hold us. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return wi_fail_os(errno, "check the path", "cannot open %.100s", path);
    wi_sys_adopt(fd);
    status = file_size(path, fd, &size);
    if (status == WHARF_OK) {
        made = wi_calloc(1, size + 1);
        status = made ? file_fill(path, fd, made, size, &got) : WHARF_ENOMEM;
    }
    wi_sys_close(&fd);
    if (status != WHARF_OK) {
        wi_free(made);
        return status;
    }
    *text = made;
    *length = got;
    return WHARF_OK;
}

typedef struct scan {
    const char *path;
    const char *at;
    const char *end;
    int depth;
    int elements;
    int sets; /* see wi_xml_object_check */
} scan;

static wharf_status broken(const scan *s, const char *what)
{
    return wi_fail(WHARF_ECONFIG, REMEDY, "%.100s is no hwloc topology: %s",
                   s->path, what);
}

/* Behind the next `mark`, or NULL. */
static const char *behind(const scan *s, const char *mark)
{
    const char *found =
        memmem(s->at, (size_t)(s->end - s->at), mark, strlen(mark));
    return found ? found + strlen(mark) : NULL;
}

static bool begins(const scan *s, const char *mark)
{
    size_t length = strlen(mark);
    return (size_t)(s->end - s->at) >= length && !memcmp(s->at, mark, length);
}

static bool name_is(const scan *s, const char *name)
{
    const char *after = s->at + strlen(name);
    return begins(s, name) && after < s->end && strchr(" \t\r\n/>", *after);
}

/* Behind the '>' of a tag; quoted ones do not count. */
static const char *tag_end(const scan *s)
{
    char quote = 0;
    for (const char *at = s->at; at < s->end; at++) {
        if (quote)
            quote = (char)(*at == quote ? 0 : quote);
        else if (*at == '"' || *at == '\'')
            quote = *at;
        else if (*at == '>')
            return at + 1;
        else if (*at == '<')
            return NULL;
    }
    return NULL;
}

/* <?...?>, <!--...-->, <!DOCTYPE ...>; s->at is behind the '<'. */
static wharf_status scan_aside(scan *s)
{
    const char *next;
    if (*s->at == '?') {
        next = behind(s, "?>");
    } else if (begins(s, "!--")) {
        next = behind(s, "-->");
    } else if (begins(s, "!DOCTYPE")) {
        const char *at = s->at;
        while (at < s->end && *at != '>' && *at != '[')
            at++;
        if (at < s->end && *at == '[')
            return broken(s, "it brings a document type of its own");
        next = at < s->end ? at + 1 : NULL;
    } else {
        return broken(s, "it declares entities or holds raw data");
    }
    if (!next)
        return broken(s, "it is cut off");
    s->at = next;
    return WHARF_OK;
}

static wharf_status scan_element(scan *s)
{
    bool closing = *s->at == '/';
    const char *next = tag_end(s);

    if (!next)
        return broken(s, "it is cut off inside a tag");
    if (!s->elements && (closing || !name_is(s, "topology")))
        return broken(s, "its root element is not <topology>");
    if (!closing && s->elements && !s->depth)
        return broken(s, "it has more than one root element");
    if (!s->elements && memmem(s->at, (size_t)(next - s->at), "version=", 8))
        s->sets = WI_XML_ALL_SETS; /* format 1 has no version */
    if (!closing && name_is(s, "object")) {
        const char *inside = s->at + strlen("object");
        wharf_status status = wi_xml_object_check(
            s->path, inside, (size_t)(next - inside), &s->sets);
        if (status != WHARF_OK)
            return status;
    }
    s->elements++;
    if (closing)
        s->depth--;
    else if (next[-2] != '/')
        s->depth++;
    s->at = next;
    if (s->depth < 0)
        return broken(s, "it closes more elements than it opens");
    if (s->depth > WI_XML_DEPTH || s->elements > WI_XML_ELEMENTS)
        return wi_fail(WHARF_ELIMIT, REMEDY,
                       "%.100s has more than %d levels or %d elements", s->path,
                       WI_XML_DEPTH, WI_XML_ELEMENTS);
    return WHARF_OK;
}

wharf_status wi_xml_check(const char *path, const char *text, size_t length)
{
    scan s = {.path = path, .at = text, .end = text + length};
    wharf_status status = WHARF_OK;

    if (memchr(text, 0, length))
        return broken(&s, "it holds binary data");
    while (status == WHARF_OK) {
        const char *tag = memchr(s.at, '<', (size_t)(s.end - s.at));
        if (!tag)
            break;
        s.at = tag + 1;
        if (s.at == s.end)
            return broken(&s, "it is cut off");
        if (*s.at == '?' || *s.at == '!')
            status = scan_aside(&s);
        else
            status = scan_element(&s);
    }
    if (status != WHARF_OK)
        return status;
    if (!s.elements)
        return broken(&s, "it holds no XML element");
    return s.depth ? broken(&s, "it is cut off before its end") : WHARF_OK;
}
