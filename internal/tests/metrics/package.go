package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// pkg is what is measured of a package. Files of tests do not count.
type pkg struct {
	name    string // its path in the main module
	files   []string
	lines   int // of all files, those of other systems among them
	arrows  graph
	order   []int // of the files, so that few arrows run back up
	types   []typeSize
	mutexes []mutex
}

type typeSize struct {
	name    string
	methods int
}

// mutex is a field or a variable that holds a lock.
type mutex struct {
	at        string // file:line
	explained bool   // it has a comment
}

func measure(l *packages.Package) (*pkg, error) {
	p := &pkg{name: short(l.PkgPath)}
	sources, err := filepath.Glob(filepath.Join(l.Dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, filepath.Base(file))
		p.lines += bytes.Count(text, []byte("\n"))
	}
	p.findArrows(l)
	p.countMethods(l)
	for _, file := range l.Syntax {
		p.findMutexes(l, file)
	}
	return p, nil
}

func (p *pkg) fileOf(l *packages.Package, pos token.Pos) int {
	return slices.Index(p.files, filepath.Base(l.Fset.Position(pos).Filename))
}

// findArrows draws an arrow from file A to file B where A names a declaration of B: a type, a
// function, a method, a field, a variable or a constant of the package.
func (p *pkg) findArrows(l *packages.Package) {
	p.arrows = newGraph(len(p.files))
	for name, obj := range l.TypesInfo.Uses {
		if obj.Pkg() != l.Types || !declared(obj, l.Types) {
			continue
		}
		p.arrows.add(p.fileOf(l, name.Pos()), p.fileOf(l, obj.Pos()))
	}
	p.order = p.arrows.bestOrder()
}

// declared reports whether an object is part of a declaration of the package, and not a
// variable inside of a function.
func declared(obj types.Object, in *types.Package) bool {
	switch obj := obj.(type) {
	case *types.Func: // a method has no scope
		return true
	case *types.Var:
		return obj.IsField() || obj.Parent() == in.Scope()
	}
	return obj.Parent() == in.Scope()
}

func (p *pkg) countMethods(l *packages.Package) {
	for _, name := range l.Types.Scope().Names() {
		t, ok := l.Types.Scope().Lookup(name).(*types.TypeName)
		if !ok || t.IsAlias() {
			continue
		}
		if named, ok := t.Type().(*types.Named); ok && named.NumMethods() > 0 {
			p.types = append(p.types, typeSize{p.name + "." + name, named.NumMethods()})
		}
	}
}

// findMutexes takes in the fields and variables of the types of package sync that lock. A
// comment is one above the field, behind it, or above the group of fields it begins.
func (p *pkg) findMutexes(l *packages.Package, file *ast.File) {
	add := func(n ast.Node, typ ast.Expr, doc ...*ast.CommentGroup) {
		if typ == nil {
			return
		}
		if name := types.ExprString(typ); name != "sync.Mutex" && name != "sync.RWMutex" {
			return
		}
		at := l.Fset.Position(n.Pos())
		explained := slices.ContainsFunc(doc, func(c *ast.CommentGroup) bool { return c != nil })
		p.mutexes = append(p.mutexes, mutex{fmt.Sprintf("%s/%s:%d", p.name, filepath.Base(at.Filename), at.Line), explained})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			add(n, n.Type, n.Doc, n.Comment)
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					add(v, v.Type, v.Doc, v.Comment, n.Doc)
				}
			}
		}
		return true
	})
}

// printOrder prints the files of a package from the top down, and for each the files above
// that it refers to.
func (p *pkg) printOrder(w io.Writer) {
	fmt.Fprintf(w, "%s: %d of %d arrows run back up\n", p.name, p.arrows.back(p.order), p.arrows.count())
	for i, file := range p.order {
		var above []string
		for _, other := range p.order[:i] {
			if p.arrows.has(file, other) {
				above = append(above, p.files[other])
			}
		}
		line := "  " + p.files[file]
		if above != nil {
			line += "  ↑ " + strings.Join(above, " ")
		}
		fmt.Fprintln(w, line)
	}
}
