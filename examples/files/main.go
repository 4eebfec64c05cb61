// Files is an MCP server over stdio with tools to look at the files below one
// folder. It cannot leave that folder, also not through a symbolic link, and
// it changes nothing.
//
//	troupe run --mcp "go run ./examples/files ." "Which Go files are largest?"
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

func main() {
	log.SetFlags(0) // stderr: stdout belongs to the protocol
	if len(os.Args) != 2 {
		log.Fatal("usage: files FOLDER")
	}
	root, err := os.OpenRoot(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()

	s, err := newServer(folder{root})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// newServer declares the tools. What they take and give is the schema.
func newServer(f folder) (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "files", Version: "1.0.0"}, &mcpserver.Options{
		Instructions: "Tools to look at the files of one folder. Paths are relative to it and use /.",
	})
	if err != nil {
		return nil, err
	}
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	return s, errors.Join(
		mcpserver.AddTool(s, &mcp.Tool{Name: "list_files", Description: "Lists files by name or size.", Annotations: readOnly}, f.list),
		mcpserver.AddTool(s, &mcp.Tool{Name: "read_file", Description: "Reads a text file.", Annotations: readOnly}, f.read),
		mcpserver.AddTool(s, &mcp.Tool{Name: "search_text", Description: "Finds lines that contain a text.", Annotations: readOnly}, f.search),
	)
}

// folder is what the tools may see.
type folder struct{ root *os.Root }

// Bounds of one answer.
const (
	maxFiles = 1000
	maxBytes = 256 << 10
	maxLines = 200
)

// File is one file of the folder.
type File struct {
	Path string `json:"path" jsonschema:"relative to the folder"`
	Size int64  `json:"size" jsonschema:"in bytes"`
}

type listIn struct {
	Suffix string `json:"suffix,omitempty" jsonschema:"only files whose name ends so, such as .go"`
	Sort   string `json:"sort,omitempty" jsonschema:"name (the default) or size, largest first"`
	Limit  int    `json:"limit,omitempty" jsonschema:"at most so many; default 100"`
}

type listOut struct {
	Files []File `json:"files"`
	Total int    `json:"total" jsonschema:"how many there are in all"`
}

func (f folder) list(ctx context.Context, req *mcpserver.ToolRequest, in listIn) (listOut, error) {
	var all []File
	err := f.walk(ctx, in.Suffix, func(name string, size int64) error {
		all = append(all, File{Path: name, Size: size})
		return nil
	})
	if err != nil {
		return listOut{}, err
	}
	if in.Sort == "size" {
		slices.SortStableFunc(all, func(a, b File) int { return cmp.Compare(b.Size, a.Size) })
	}
	limit := min(cmp.Or(in.Limit, 100), maxFiles, len(all))
	return listOut{Files: all[:max(limit, 0)], Total: len(all)}, nil
}

type readIn struct {
	Path string `json:"path"`
}

func (f folder) read(ctx context.Context, req *mcpserver.ToolRequest, in readIn) (*mcp.CallToolResult, error) {
	file, err := f.root.Open(in.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case bytes.IndexByte(data, 0) >= 0:
		return nil, fmt.Errorf("%s is not a text file", in.Path)
	case len(data) == 0:
		return text("(the file is empty)"), nil
	case len(data) > maxBytes:
		return text(strings.ToValidUTF8(string(data[:maxBytes]), "") + "\n(cut: the file is longer)"), nil
	}
	return text(string(data)), nil
}

type searchIn struct {
	Text   string `json:"text" jsonschema:"what to look for, exactly as written"`
	Suffix string `json:"suffix,omitempty" jsonschema:"only in files whose name ends so"`
}

type searchOut struct {
	Lines []string `json:"lines" jsonschema:"path:line: text"`
	Cut   bool     `json:"cut" jsonschema:"there are more"`
}

func (f folder) search(ctx context.Context, req *mcpserver.ToolRequest, in searchIn) (searchOut, error) {
	out := searchOut{Lines: []string{}}
	if in.Text == "" {
		return out, errors.New("text is empty: say what to look for")
	}
	seen := 0
	err := f.walk(ctx, in.Suffix, func(name string, _ int64) error {
		if seen++; seen%100 == 0 {
			req.Progress(float64(seen), 0, name)
		}
		return f.grep(name, in.Text, &out)
	})
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return out, err
}

func (f folder) grep(name, text string, out *searchOut) error {
	file, err := f.root.Open(name)
	if err != nil {
		return nil // gone, or not ours to read: the search goes on
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		if !strings.Contains(lines.Text(), text) {
			continue
		}
		if len(out.Lines) == maxLines {
			out.Cut = true
			return fs.SkipAll
		}
		out.Lines = append(out.Lines, fmt.Sprintf("%s:%d: %s", name, n, strings.TrimSpace(lines.Text())))
	}
	return nil // a file with endless lines is no text: skipped
}

// walk visits the regular files, hidden folders left out, in the order of their names.
func (f folder) walk(ctx context.Context, suffix string, visit func(name string, size int64) error) error {
	return fs.WalkDir(f.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return nil
		case entry.IsDir():
			if base := path.Base(name); base != "." && strings.HasPrefix(base, ".") {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || !strings.HasSuffix(name, suffix):
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		return visit(name, info.Size())
	})
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(s)}}
}
