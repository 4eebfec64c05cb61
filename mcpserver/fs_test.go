//go:build unix

package mcpserver_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// aTree is a folder with all that a folder may have, beside a secret.
func aTree(t *testing.T) *os.Root {
	t.Helper()
	outer := t.TempDir()
	inner := filepath.Join(outer, "tree")
	for _, dir := range []string{"tree/sub/deep", "tree/.git", "tree/many"} {
		if err := os.MkdirAll(filepath.Join(outer, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"secret": "hunter2", "tree/a.txt": "hello", "tree/sub/b.json": `{"b":1}`, "tree/c.bin": "\xff\x00", "tree/nul": "a\x00b", "tree/empty": "",
		"tree/.env": "hunter2", "tree/.git/config": "hunter2", "tree/sub/ü %20#?.txt": "odd", "tree/long": strings.Repeat("x", 2000), "tree/many/1": "",
		"tree/many/2": "", "tree/many/3": "",
	} {
		if err := os.WriteFile(filepath.Join(outer, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"link": "../secret", "absolute": filepath.Join(outer, "secret"), "out": "..", "inner": "a.txt", "loop": "loop", "sub/up": "../../secret",
	} {
		if err := os.Symlink(to, filepath.Join(inner, name)); err != nil {
			mcptest.Lacks(t, "symbolic links", err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(inner, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(inner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func withTree(t *testing.T, opts *mcpserver.FSOptions, f func(p *peer)) {
	t.Helper()
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		if err := mcpserver.ServeFS(s, "file:///project/", aTree(t).FS(), opts); err != nil {
			t.Fatal(err)
		}
		p.modern()
		f(p)
	})
}

func TestServeFS(t *testing.T) {
	withTree(t, &mcpserver.FSOptions{MaxFile: 1000, MaxEntries: 100}, func(p *peer) {
		for uri, want := range map[string]mcp.ResourceContents{
			"file:///project/a.txt":                        {MIMEType: "text/plain; charset=utf-8", Text: "hello"},
			"file:///project/sub/b.json":                   {MIMEType: "application/json", Text: `{"b":1}`},
			"file:///project/c.bin":                        {MIMEType: "application/octet-stream", Blob: []byte{0xff, 0}},
			"file:///project/nul":                          {MIMEType: "application/octet-stream", Blob: []byte("a\x00b")},
			"file:///project/empty":                        {MIMEType: "text/plain; charset=utf-8"},
			"file:///project/inner":                        {MIMEType: "text/plain; charset=utf-8", Text: "hello"}, // a link that stays within
			"file:///project/sub/%C3%BC%20%2520%23%3F.txt": {MIMEType: "text/plain; charset=utf-8", Text: "odd"},
			"file:///project/sub":                          {MIMEType: "text/uri-list", Text: "file:///project/sub/b.json\r\nfile:///project/sub/deep/\r\nfile:///project/sub/%C3%BC%20%2520%23%3F.txt\r\n"},
			"file:///project/sub/deep/":                    {MIMEType: "text/uri-list"},
			"file:///project/": {MIMEType: "text/uri-list", Text: "file:///project/a.txt\r\nfile:///project/c.bin\r\nfile:///project/empty\r\nfile:///project/inner\r\n" +
				"file:///project/long\r\nfile:///project/many/\r\nfile:///project/nul\r\nfile:///project/sub/\r\n"},
		} {
			got := p.readResult(p.version, uri).Contents
			if len(got) != 1 || got[0].URI != uri || got[0].MIMEType != want.MIMEType || got[0].Text != want.Text || string(got[0].Blob) != string(want.Blob) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", uri, got, want)
			}
		}
		if e := p.expectError(read(p.version, 1, "file:///project/long"), mcp.CodeInternal, "1"); !strings.Contains(e.Message, "1000") {
			t.Errorf("a long file: got %v", e)
		}
	})
}

// SECA-46: nothing leads out of the tree: neither names nor links; and what is no
// file, or hidden, is not there. RES-04: the client is told nothing else of it.
func TestServeFSHoldsIn(t *testing.T) {
	withTree(t, nil, func(p *peer) {
		for _, uri := range []string{
			"file:///project/link", "file:///project/absolute", "file:///project/out/secret", "file:///project/out", "file:///project/sub/up",
			"file:///project/loop", "file:///project/pipe", "file:///project/.env", "file:///project/.git/config", "file:///project/.git",
			"file:///project/../secret", "file:///project/%2e%2e/secret", "file:///project/sub/../../secret", "file:///project/..%2fsecret",
			"file:///project/%2fetc/passwd", "file:///project//etc/passwd", "file:///project/a.txt/", "file:///project/sub//b.json",
			"file:///project/C:/Windows", "file:///project/c:a.txt", "file:///project/..%5c..%5csecret", "file:///project/a.txt%00.png",
			"file:///project/a.txt/x", "file:///project/%252e%252e/secret", "file:///project", "file:////project/a.txt",
			"file://localhost/project/a.txt", "file://evil.example/project/a.txt", "file:/project/a.txt", "FILE:///project/a.txt", "file:///project/nope",
			"file:///secret", "file:///project/./a.txt", "file:///project/a.txt?x=1", "file:///project/a.txt#x",
		} {
			if uri == "file:///project/a.txt/" { // the slash behind a file is forgiven
				continue
			}
			e := p.expectError(read(p.version, 1, uri), mcp.CodeInvalidParams, "1")
			if e.Message != "resource not found" || strings.Contains(string(e.Data), "hunter2") {
				t.Errorf("%s: got %v %s", uri, e, e.Data)
			}
		}
	})
}

func TestServeFSOptions(t *testing.T) {
	withTree(t, &mcpserver.FSOptions{Name: "files", Description: "d", MaxEntries: 2, Hidden: true}, func(p *peer) {
		if got := p.readResult(p.version, "file:///project/.env").Contents[0].Text; got != "hunter2" {
			t.Errorf("a hidden file: got %q", got)
		}
		list := strings.Split(strings.TrimSpace(p.readResult(p.version, "file:///project/many").Contents[0].Text), "\r\n")
		if len(list) != 3 || list[2] != "# and more" {
			t.Errorf("a long folder: got %q", list)
		}
		if l := p.page(p.version, mcp.MethodListResourceTemplates, nil); !slices.Equal(l.Names, []string{"file:///project/{+path}files"}) {
			t.Errorf("templates: got %v", l.Names)
		}
		if l := p.page(p.version, mcp.MethodListResources, nil); !slices.Equal(l.Names, []string{"file:///project/files"}) {
			t.Errorf("resources: got %v", l.Names)
		}
	})
}

func TestServeFSErrors(t *testing.T) {
	memory := fstest.MapFS{"a": {Data: []byte("a")}}
	for name, add := range map[string]func(s *mcpserver.Server) error{
		"os.DirFS":  func(s *mcpserver.Server) error { return mcpserver.ServeFS(s, "file:///x/", os.DirFS("."), nil) },
		"nothing":   func(s *mcpserver.Server) error { return mcpserver.ServeFS(s, "file:///x/", nil, nil) },
		"no slash":  func(s *mcpserver.Server) error { return mcpserver.ServeFS(s, "file:///x", memory, nil) },
		"host":      func(s *mcpserver.Server) error { return mcpserver.ServeFS(s, "file://host/x/", memory, nil) },
		"dots":      func(s *mcpserver.Server) error { return mcpserver.ServeFS(s, "file:///x/../", memory, nil) },
		"query":     func(s *mcpserver.Server) error { return mcpserver.ServeFS(s, "x://y?z=/", memory, nil) },
		"template":  func(s *mcpserver.Server) error { return mcpserver.ServeFS(s, "x://{y}/", memory, nil) },
		"no scheme": func(s *mcpserver.Server) error { return mcpserver.ServeFS(s, "/x/", memory, nil) },
	} {
		refused(t, name, add)
	}
}

// Files of a program are served in the same way.
func TestServeMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		if err := mcpserver.ServeFS(s, "docs://all/", fstest.MapFS{"x/y.md": {Data: []byte("# y")}}, nil); err != nil {
			t.Fatal(err)
		}
		p := serve(t, s)
		p.modern()
		if got := p.readResult(p.version, "docs://all/x/y.md").Contents[0].Text; got != "# y" {
			t.Errorf("got %q", got)
		}
		if got := p.readResult(p.version, "docs://all/").Contents[0].Text; got != "docs://all/x/\r\n" {
			t.Errorf("got %q", got)
		}
	})
}

// Whatever a URI is, what comes of it is a file of the tree or an error.
func FuzzServeFS(f *testing.F) {
	for _, uri := range []string{
		"file:///project/a.txt", "file:///project/", "file:///project/../secret", "file:///project/%2e%2e/secret", "file:///project/link",
		"file:///project/out/secret", "file://host/project/a.txt", "file:///project/C:/x", "file:///project/..%5Csecret", "\x00", "file:///project/%",
	} {
		f.Add(uri)
	}
	s, _ := newServer(f, nil)
	outer := f.TempDir()
	inner := filepath.Join(outer, "tree")
	for _, err := range []error{
		os.Mkdir(inner, 0o755), os.WriteFile(filepath.Join(inner, "a.txt"), []byte("hello"), 0o600),
		os.WriteFile(filepath.Join(outer, "secret"), []byte("hunter2"), 0o600),
		os.Symlink("../secret", filepath.Join(inner, "link")), os.Symlink("..", filepath.Join(inner, "out")),
	} {
		if err != nil {
			f.Fatal(err)
		}
	}
	root, err := os.OpenRoot(inner)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { root.Close() })
	if err := mcpserver.ServeFS(s, "file:///project/", root.FS(), nil); err != nil {
		f.Fatal(err)
	}
	p := serve(f, s)
	p.modern()
	f.Fuzz(func(t *testing.T, uri string) {
		raw, err := json.Marshal(uri)
		if err != nil {
			t.Skip()
		}
		p.t = t
		answer := p.ask(request(p.version, 1, mcp.MethodReadResource, `{"uri":`+string(raw)+`}`))
		if strings.Contains(answer, "hunter2") && !strings.Contains(uri, "hunter2") {
			t.Errorf("%q: got %s", uri, answer)
		}
		if !strings.Contains(answer, `"id":1`) {
			t.Errorf("%q: got %s", uri, answer)
		}
	})
}
