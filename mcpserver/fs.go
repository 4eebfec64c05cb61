package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/mcp"
)

// FSOptions changes how files are served; nil is the same as the zero value.
type FSOptions struct {
	// Name is that of the resource and of the template. Empty is the last part of the
	// base.
	Name string
	// Description is for the model. It may be empty.
	Description string
	// MaxFile bounds a file that is read, in bytes; a longer one is an error. Zero means
	// 1 MiB.
	MaxFile int64
	// MaxEntries bounds the entries that a folder is listed with. Zero means 1000.
	MaxEntries int
	// Hidden serves names that begin with a dot too, such as .git and .env.
	Hidden bool
}

// ServeFS serves a tree of files as resources below base, which ends with a slash,
// such as "file:///project/": base itself as a resource, and all that is in it by a
// template. A folder reads as text/uri-list (RFC 2483), a file as text if it is UTF-8
// and as a blob else. Its MIME type is that of its extension, or what it looks like.
//
// For a folder of this machine files must be (*os.Root).FS(): it holds against
// symbolic links and all else that leads out of the folder (SECA-46). os.DirFS does
// not, and is refused. What is no ordinary file is not there for clients.
func ServeFS(s *Server, base string, files fs.FS, opts *FSOptions) error {
	t, err := newTree(base, files, opts)
	if err != nil {
		return s.fail(err)
	}
	err = AddResource(s,
		&mcp.Resource{URI: base, Name: t.opts.Name, Description: t.opts.Description, MIMEType: mimeURIList},
		func(_ context.Context, _ *ResourceRequest) (mcp.ResourceContents, error) { return t.read("") })
	if err != nil {
		return err
	}
	return AddTemplate(s,
		&mcp.ResourceTemplate{URITemplate: base + "{+path}", Name: t.opts.Name, Description: t.opts.Description},
		func(_ context.Context, _ *ResourceRequest, vars Vars) (mcp.ResourceContents, error) {
			return t.read(vars.Get("path"))
		})
}

const mimeURIList = "text/uri-list"

// tree is what ServeFS serves.
type tree struct {
	base  string
	files fs.FS
	opts  FSOptions
}

func newTree(base string, files fs.FS, opts *FSOptions) (*tree, error) {
	t := &tree{base: base, files: files}
	if opts != nil {
		t.opts = *opts
	}
	t.opts.Name = cmp.Or(t.opts.Name, path.Base(base))
	t.opts.MaxFile = cmp.Or(t.opts.MaxFile, 1<<20)
	t.opts.MaxEntries = cmp.Or(t.opts.MaxEntries, 1000)
	var err error
	switch {
	case files == nil:
		err = errors.New("there are none")
	case fmt.Sprintf("%T", files) == "os.dirFS":
		err = errors.New("os.DirFS follows links out of its folder: use (*os.Root).FS")
	case !strings.HasSuffix(base, "/") || strings.ContainsAny(base, "?#"):
		err = errors.New("the base is not the URI of a folder, which ends with a slash")
	case climbs(base):
		err = errors.New("the base is not where it seems to be")
	default:
		err = checkURI(base)
	}
	if err != nil {
		return nil, fmt.Errorf("serving the files at %q: %w", base, err)
	}
	return t, nil
}

// read returns what is at a path, which is decoded already.
func (t *tree) read(name string) (mcp.ResourceContents, error) {
	name = strings.TrimSuffix(name, "/")
	if name == "" {
		name = "."
	}
	if !t.shows(name) {
		return mcp.ResourceContents{}, ErrNotFound
	}
	info, err := fs.Stat(t.files, name) // before it is opened: opening a pipe waits for a writer
	switch {
	case err != nil: // also what may not be read, and what leads out: nothing is told of it
		return mcp.ResourceContents{}, errors.Join(ErrNotFound, err)
	case info.IsDir():
		return t.folder(name)
	case !info.Mode().IsRegular():
		return mcp.ResourceContents{}, ErrNotFound
	}
	return t.file(name)
}

// shows reports whether a path is a plain one that stays within: without empty, dot
// or dot-dot segments, drives, streams and names of devices (SECA-46).
func (t *tree) shows(name string) bool {
	if !fs.ValidPath(name) || !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsAny(name, "\\\x00") {
		return false
	}
	if runtime.GOOS == "windows" && strings.Contains(name, ":") || len(name) >= 2 && name[1] == ':' {
		return false
	}
	if t.opts.Hidden || name == "." {
		return true
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment[0] == '.' {
			return false
		}
	}
	return true
}

// file reads a file.
func (t *tree) file(name string) (mcp.ResourceContents, error) {
	var none mcp.ResourceContents
	f, err := t.files.Open(name)
	if err != nil {
		return none, errors.Join(ErrNotFound, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // another one by now
		return none, ErrNotFound
	}
	data, err := io.ReadAll(io.LimitReader(f, t.opts.MaxFile+1))
	switch {
	case err != nil:
		return none, fmt.Errorf("reading the file %q: %w", name, err)
	case int64(len(data)) > t.opts.MaxFile:
		return none, mcp.Errorf(mcp.CodeInternal, "the file is longer than %d bytes", t.opts.MaxFile)
	}
	return fileContents(name, data), nil
}

// fileContents are those of a file, by its name and by what is in it.
func fileContents(name string, data []byte) mcp.ResourceContents {
	c := mcp.ResourceContents{MIMEType: mime.TypeByExtension(path.Ext(name))}
	if c.MIMEType == "" {
		c.MIMEType = http.DetectContentType(data)
	}
	if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		c.Text = string(data)
	} else {
		c.Blob = notNil(data)
	}
	return c
}

// folder lists a folder by the URIs of what is in it.
func (t *tree) folder(name string) (mcp.ResourceContents, error) {
	var none mcp.ResourceContents
	f, err := t.files.Open(name)
	if err != nil {
		return none, errors.Join(ErrNotFound, err)
	}
	defer f.Close()
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return none, ErrNotFound
	}
	entries, err := dir.ReadDir(t.opts.MaxEntries + 1)
	if err != nil && err != io.EOF {
		return none, fmt.Errorf("reading the folder %q: %w", name, err)
	}
	more := len(entries) > t.opts.MaxEntries
	entries = entries[:min(len(entries), t.opts.MaxEntries)]
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var list strings.Builder
	for _, e := range entries {
		within := path.Join(name, e.Name())
		if !t.shows(within) {
			continue
		}
		info, err := fs.Stat(t.files, within) // of what a link leads to
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			continue
		}
		list.WriteString(t.uri(within, info.IsDir()) + "\r\n")
	}
	if more {
		list.WriteString("# and more\r\n")
	}
	return mcp.ResourceContents{MIMEType: mimeURIList, Text: list.String()}, nil
}

// uri is that of what is at a path.
func (t *tree) uri(name string, folder bool) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	if folder {
		parts = append(parts, "")
	}
	return t.base + strings.Join(parts, "/")
}
