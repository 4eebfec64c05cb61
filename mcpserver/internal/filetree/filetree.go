// Package filetree reads a tree of files as the contents of resources: a folder as a list of
// URIs, a file as text or blob. It stays within the tree.
package filetree

import (
	"bytes"
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
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
)

// MIMEURIList is the type of the contents of a folder (RFC 2483).
const MIMEURIList = "text/uri-list"

// Options changes how a tree is served.
type Options struct {
	MaxFile    int64 // bytes of a file that is read
	MaxEntries int   // of a folder that is listed
	Hidden     bool  // names that begin with a dot are served, too
}

// ErrNotFound is the error of a path that has neither an ordinary file nor a folder that is served.
var ErrNotFound = errors.New("no file or folder is served there")

// Tree is a tree of files below a base.
type Tree struct {
	base  string
	files fs.FS
	opts  Options
}

// New returns the tree of files below base.
func New(base string, files fs.FS, opts Options) (*Tree, error) {
	t := &Tree{base: base, files: files, opts: opts}
	var err error
	switch {
	case files == nil:
		err = errors.New("the file system is nil")
	case fmt.Sprintf("%T", files) == "os.dirFS":
		err = errors.New("os.DirFS follows links out of its folder: use (*os.Root).FS")
	case !strings.HasSuffix(base, "/") || strings.ContainsAny(base, "?#"):
		err = errors.New("the base is not the URI of a folder, which ends with a slash")
	case registry.Climbs(base):
		err = errors.New("the base has dot segments or a host")
	default:
		err = registry.CheckURI(base)
	}
	if err != nil {
		return nil, fmt.Errorf("serving the files at %q: %w", base, err)
	}
	return t, nil
}

// Read returns the contents of a path, which is decoded already.
func (t *Tree) Read(name string) (mcp.ResourceContents, error) {
	name = strings.TrimSuffix(name, "/")
	if name == "" {
		name = "."
	}
	if !t.shows(name) {
		return mcp.ResourceContents{}, ErrNotFound
	}
	info, err := fs.Stat(t.files, name) // before it is opened: opening a pipe waits for a writer
	switch {
	case err != nil: // the same for all reasons: clients learn nothing of forbidden files, or of links out of the tree
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
func (t *Tree) shows(name string) bool {
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
func (t *Tree) file(name string) (mcp.ResourceContents, error) {
	var none mcp.ResourceContents
	f, err := t.files.Open(name)
	if err != nil {
		return none, errors.Join(ErrNotFound, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // the file has been replaced
		return none, ErrNotFound
	}
	data, err := io.ReadAll(io.LimitReader(f, t.opts.MaxFile+1))
	switch {
	case err != nil:
		return none, fmt.Errorf("reading the file %q: %w", name, err)
	case int64(len(data)) > t.opts.MaxFile:
		return none, mcp.Errorf(mcp.CodeInternal, "the file is longer than %d bytes", t.opts.MaxFile)
	}
	return Contents(name, data), nil
}

// Contents returns the contents of a file. Its MIME type is that of the extension of its name, or
// else follows from the data.
func Contents(name string, data []byte) mcp.ResourceContents {
	c := mcp.ResourceContents{MIMEType: mime.TypeByExtension(path.Ext(name))}
	if c.MIMEType == "" {
		c.MIMEType = http.DetectContentType(data)
	}
	if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		c.Text = string(data)
	} else {
		c.Blob = data // not nil: it has bytes
	}
	return c
}

// folder lists a folder as URIs.
func (t *Tree) folder(name string) (mcp.ResourceContents, error) {
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
		info, err := fs.Stat(t.files, within) // of the target of a link
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			continue
		}
		list.WriteString(t.uri(within, info.IsDir()) + "\r\n")
	}
	if more {
		list.WriteString("# and more\r\n")
	}
	return mcp.ResourceContents{MIMEType: MIMEURIList, Text: list.String()}, nil
}

// uri returns the URI of a path.
func (t *Tree) uri(name string, folder bool) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	if folder {
		parts = append(parts, "")
	}
	return t.base + strings.Join(parts, "/")
}
