package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayStart are the folders whose code may start goroutines. Everybody else asks the
// kit for a task: only that is counted, named and waited for at shutdown.
//
// store/sqlite is no part of any actor system: its one writer goroutine ends with
// Close. Neither are the one reader of a terminal, which a read can not be taken away
// from, and the wait for a browser, which outlives everything. internal/mcptest and
// internal/memhttp are of tests only; for memhttp the standard library's test server would
// start the goroutine, but waits for locks, by which the clock of a synctest bubble stands still.
// Programs may do as they like: packages main, and what cmd/troupe is made of below
// internal/cli.
var mayStart = []string{"actors", "store/sqlite", "mcpclient/terminal", "internal/browser", "internal/mcptest", "internal/memhttp"}

// mayPrint are the folders whose code may write to stdout, beside programs: the
// server whose transport it is.
var mayPrint = []string{"mcpserver"}

// mayListen are the folders whose code makes HTTP servers: the one place that bounds what strangers
// can use up, and what is for tests and measurements. Programs, such as the examples, may do as they
// like.
var mayListen = []string{"internal/webserver", "internal/memhttp", "internal/mcptest", "internal/cli/bench", "benchmarks/turn"}

// traps are names of the actor library that are not used, and why.
var traps = map[string]string{
	"SetReceiveTimeout":               "a data race between its timer and the mailbox",
	"ReenterAfter":                    "runs on dead incarnations",
	"Stash":                           "loses the sender, and replays on restart only",
	"RequestFuture":                   "a second answer is a data race",
	"StopFuture":                      "waits a fixed 10 s",
	"PoisonFuture":                    "waits a fixed 10 s",
	"NewFuture":                       "a second answer is a data race",
	"WithDefaultPrometheusProvider":   "opens a port on all interfaces",
	"WithDeveloperSupervisionLogging": "prints to stdout",
}

// named is an expression such as http.Server as it is written; empty for others.
func named(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// inspect returns what a file of ours does that it must not.
func inspect(folder string, file *ast.File, at func(token.Pos) string) []string {
	var bad []string
	program := file.Name.Name == "main"
	listens := !program && !slices.Contains(mayListen, folder)
	report := func(n ast.Node, format string, args ...any) {
		bad = append(bad, at(n.Pos())+": "+fmt.Sprintf(format, args...))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if !program && !strings.HasPrefix(folder, "internal/cli/") && !slices.Contains(mayStart, folder) {
				report(n, "a go statement: only the kit starts goroutines, use its tasks")
			}
		case *ast.SelectorExpr:
			if why, ok := traps[n.Sel.Name]; ok {
				report(n, "%s: %s", n.Sel.Name, why)
			}
			if x, ok := n.X.(*ast.Ident); ok && !program && !slices.Contains(mayPrint, folder) {
				name := x.Name + "." + n.Sel.Name
				if name == "os.Stdout" || strings.HasPrefix(name, "fmt.Print") {
					report(n, "%s: stdout belongs to the program", name)
				}
			}
		case *ast.CompositeLit:
			if listens && named(n.Type) == "http.Server" {
				report(n, "http.Server: internal/webserver makes servers, with their bounds")
			}
		case *ast.CallExpr:
			if name := named(n.Fun); listens && slices.Contains([]string{"http.Serve", "http.ServeTLS", "http.ListenAndServe", "http.ListenAndServeTLS"}, name) {
				report(n, "%s: internal/webserver makes servers, with their bounds", name)
			}
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
				report(n, "%s: use the logger", f.Name)
			}
		}
		return true
	})
	return bad
}

func TestSources(t *testing.T) {
	top := root(t)
	files := 0
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if path == top {
				return nil
			}
			if name := d.Name(); name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return filepath.SkipDir // a module of its own
			}
			return nil
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		files++
		for _, bad := range inspect(filepath.ToSlash(filepath.Dir(rel)), file, func(p token.Pos) string {
			return fmt.Sprintf("%s:%d", rel, set.Position(p).Line)
		}) {
			t.Error(bad)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Errorf("only %d files were looked at", files)
	}
}

// TestInspect: each rule can be broken.
func TestInspect(t *testing.T) {
	tests := []struct {
		folder, body string
		want         string
	}{
		{"agent", "go f()", "go statement"},
		{"actors", "go f()", ""},
		{"actors/loop", "go f()", "go statement"},
		{"store/sqlite", "go f()", ""},
		{"store/memstore", "go f()", "go statement"},
		{"actors", "c.SetReceiveTimeout(1)", "data race"},
		{"actors", "c.ReenterAfter(f, g)", "dead incarnations"},
		{"mcpclient", "root.RequestFuture(pid, m, 1).Result()", "data race"},
		{"llm", `fmt.Println("x")`, "stdout belongs"},
		{"llm", `fmt.Fprintln(os.Stderr, "x")`, ""},
		{"mcpclient", "w := os.Stdout; _ = w", "stdout belongs"},
		{"mcpserver", "w := os.Stdout; _ = w", ""},
		{"agent", `println("x")`, "use the logger"},
		{"cmd/troupe", `go fmt.Println("x")`, ""},
		{"cmd/troupe", "c.Stash()", "loses the sender"},
		{"internal/cli/serve", "go f()", ""},
		{"internal/cli/serve", "s := &http.Server{Handler: h}", "internal/webserver"},
		{"mcpserver/connect", "http.Serve(l, h)", "internal/webserver"},
		{"internal/webserver", "s := &http.Server{Handler: h}", ""},
		{"cmd/troupe", "http.ListenAndServe(a, h)", ""},
		{"internal/cli/serve", `fmt.Println("x")`, "stdout belongs to the program"},
	}
	for _, tt := range tests {
		name := "x"
		if strings.HasPrefix(tt.folder, "cmd/") {
			name = "main"
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "x.go", "package "+name+"\nfunc _() {\n"+tt.body+"\n}", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		bad := inspect(tt.folder, file, func(token.Pos) string { return "x" })
		if got := strings.Join(bad, "\n"); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s in %s: got %q, want %q", tt.body, tt.folder, got, tt.want)
		}
	}
}
