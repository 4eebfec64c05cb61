package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/filetree"
)

// FSOptions changes how files are served; nil is the same as the zero value.
type FSOptions struct {
	// Name is the name of the resource and of the template. Empty is the last part of the
	// base.
	Name string
	// Description is for the model. It may be empty.
	Description string
	// MaxFile bounds a file, in bytes; reading a longer one is an error. Zero means
	// 1 MiB.
	MaxFile int64
	// MaxEntries bounds the entries in the list of a folder. Zero means 1000.
	MaxEntries int
	// Hidden serves names that begin with a dot too, such as .git and .env.
	Hidden bool
}

// ServeFS serves a tree of files as resources below base, which ends with a slash,
// such as "file:///project/": base itself as a resource, and all files in it by a
// template. A folder reads as text/uri-list (RFC 2483), a file as text if it is UTF-8
// and as a blob otherwise. Its MIME type follows from its extension, or else from its bytes.
//
// For a folder of this machine files must be (*os.Root).FS(), which does not follow
// symbolic links and names out of the folder. os.DirFS does, and is an error. Clients see
// only ordinary files and folders.
func ServeFS(s *Server, base string, files fs.FS, opts *FSOptions) error {
	o := *cmp.Or(opts, new(FSOptions))
	name := cmp.Or(o.Name, path.Base(base))
	t, err := filetree.New(base, files, filetree.Options{
		MaxFile: cmp.Or(o.MaxFile, 1<<20), MaxEntries: cmp.Or(o.MaxEntries, 1000), Hidden: o.Hidden,
	})
	if err != nil {
		return err
	}
	read := func(path string) (mcp.ResourceContents, error) {
		c, err := t.Read(path)
		if errors.Is(err, filetree.ErrNotFound) {
			err = errors.Join(ErrNotFound, err)
		}
		return c, err
	}
	err = AddResource(s,
		&mcp.Resource{URI: base, Name: name, Description: o.Description, MIMEType: filetree.MIMEURIList},
		func(_ context.Context, _ *ResourceRequest) (mcp.ResourceContents, error) { return read("") })
	if err != nil {
		return err
	}
	return AddTemplate(s,
		&mcp.ResourceTemplate{URITemplate: base + "{+path}", Name: name, Description: o.Description},
		func(_ context.Context, _ *ResourceRequest, vars Vars) (mcp.ResourceContents, error) {
			return read(vars.Get("path"))
		})
}
