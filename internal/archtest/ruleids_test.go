package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ruleID is the number of a rule of the protocol, or of an attack case: "SAMP-07".
var ruleID = regexp.MustCompile(`\b[A-Z]{2,6}-\d{2}\b`)

// notRules look like rules, and are not.
var notRules = []string{"UTF-16"}

// TestDocsNameNoRules: what users read of a package stands without the numbers of our rules,
// which belong into code and tests.
func TestDocsNameNoRules(t *testing.T) {
	top := root(t)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != top && (d.Name() == "internal" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir(), filepath.Ext(path) != ".go", strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, c := range publicDocs(file) {
			for _, id := range ruleID.FindAllString(c.Text(), -1) {
				if !slices.Contains(notRules, id) {
					t.Errorf("%s: the documentation names the rule %s", set.Position(c.Pos()), id)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// publicDocs returns the comments that go doc shows of a file.
func publicDocs(file *ast.File) (docs []*ast.CommentGroup) {
	add := func(all ...*ast.CommentGroup) {
		docs = append(docs, slices.DeleteFunc(all, func(c *ast.CommentGroup) bool { return c == nil })...)
	}
	add(file.Doc)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				add(d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					if s.Names[0].IsExported() {
						add(d.Doc, s.Doc, s.Comment)
					}
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						add(d.Doc, s.Doc, s.Comment)
						add(memberDocs(s.Type)...)
					}
				}
			}
		}
	}
	return docs
}

// memberDocs returns the comments on the exported members of a type.
func memberDocs(of ast.Expr) (docs []*ast.CommentGroup) {
	var fields *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		fields = of.Methods
	default:
		return nil
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 || f.Names[0].IsExported() {
			docs = append(docs, f.Doc, f.Comment)
		}
	}
	return docs
}
