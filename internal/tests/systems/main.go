// Systems checks the types of all packages of the main module and of those of this module that run
// elsewhere, with their tests, as they are without a C compiler on the systems that are named:
//
//	go run ./systems darwin/arm64 windows/amd64
//
// A build would compile each dependency for each system, which takes minutes; what differs by system
// is which files there are, and a type checker finds what does not fit in them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/internal/tests"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "systems:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, systems []string) error {
	root, err := tests.Root(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, system := range systems {
		for dir, patterns := range map[string][]string{
			root:                                     {"./..."},
			filepath.Join(root, "internal", "tests"): {"./hostile/..."},
		} {
			if err := check(ctx, dir, system, patterns); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", system, err))
			}
		}
	}
	return errors.Join(faults...)
}

// listed is a package as the go command lists it.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	ImportMap  map[string]string // of imports that are another package than they say
	Module     *struct{ Path string }
	Standard   bool
	DepOnly    bool
	Error      *struct{ Err string }
}

// check checks the packages of a module for one system.
func check(ctx context.Context, dir, system string, patterns []string) error {
	goos, arch, ok := strings.Cut(system, "/")
	sizes := types.SizesFor("gc", arch)
	if !ok || sizes == nil {
		return errors.New("the system is not one like darwin/arm64")
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-e", "-deps", "-test",
		"-json=ImportPath,Dir,GoFiles,Imports,ImportMap,Module,Standard,DepOnly,Error"}, patterns...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c := &checker{sizes: sizes, fset: token.NewFileSet(), faults: make(map[string]bool), done: map[string]*checked{"unsafe": {pkg: types.Unsafe, ready: closed()}}}
	err = c.read(out)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return fmt.Errorf("listing packages: %w", err)
	}
	c.all.Wait()
	if len(c.faults) > 0 {
		return errors.New(strings.Join(slices.Sorted(maps.Keys(c.faults)), "\n"))
	}
	return nil
}

// checker checks packages at once, each when those that it imports are checked.
type checker struct {
	sizes types.Sizes
	fset  *token.FileSet
	all   sync.WaitGroup
	done  map[string]*checked // by path; only read has it

	mu     sync.Mutex      // guards faults
	faults map[string]bool // a package and the same with its tests have the same ones
}

type checked struct {
	pkg   *types.Package
	ready chan struct{} // closed once pkg is checked
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// read starts a check of each package of a list, in which imports come first.
func (c *checker) read(list io.Reader) error {
	places := make(chan struct{}, 16)
	for d := json.NewDecoder(list); ; {
		var p listed
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case p.Error != nil:
			return fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		case p.ImportPath == "unsafe":
			continue
		}
		imports := make(map[string]*checked)
		for _, path := range p.Imports { // as they are after the map
			imports[path] = c.done[path]
		}
		mine := &checked{ready: make(chan struct{})}
		c.done[p.ImportPath] = mine
		c.all.Go(func() {
			defer close(mine.ready)
			for _, i := range imports {
				if i != nil {
					<-i.ready
				}
			}
			places <- struct{}{}
			defer func() { <-places }()
			mine.pkg = c.check(p, imports)
		})
	}
}

// check checks one package: of those of other modules only what others see of it.
func (c *checker) check(p listed, imports map[string]*checked) *types.Package {
	ours := p.Module != nil && strings.HasPrefix(p.Module.Path, tests.Main)
	conf := types.Config{
		Sizes:            c.sizes,
		IgnoreFuncBodies: !ours,
		FakeImportC:      true,
		Importer: importer(func(path string) (*types.Package, error) {
			if to := p.ImportMap[path]; to != "" {
				path = to
			}
			if path == "unsafe" {
				return types.Unsafe, nil
			}
			if i := imports[path]; i != nil && i.pkg != nil {
				return i.pkg, nil
			}
			return nil, fmt.Errorf("%s is not listed", path)
		}),
		Error: func(err error) {
			if ours {
				c.fault(err)
			}
		},
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) { // that of a test's main function is in the build cache
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(c.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			c.fault(err)
			continue
		}
		files = append(files, f)
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // "p [p.test]" is p with its tests
	pkg, _ := conf.Check(path, c.fset, files, nil)
	return pkg
}

func (c *checker) fault(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[err.Error()] = true
}

type importer func(path string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }
