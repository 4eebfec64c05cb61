package main

import (
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestBestOrder: an order without arrows back up is found where there is one, and a cycle
// costs one arrow.
func TestBestOrder(t *testing.T) {
	layered := newGraph(30)
	for from := range layered {
		for to := range from {
			layered.add(from, to) // each file names all files before it
		}
	}
	if order := layered.bestOrder(); layered.back(order) != 0 {
		t.Errorf("layers: %d of %d arrows run back up in %v, want none", layered.back(order), layered.count(), order)
	}
	cycle := newGraph(7)
	for from := range cycle {
		cycle.add(from, (from+1)%len(cycle))
	}
	if order := cycle.bestOrder(); cycle.back(order) != 1 {
		t.Errorf("a cycle: %d arrows run back up in %v, want 1", cycle.back(order), order)
	}
}

// TestMeasure counts a package of three files, whose types know each other.
func TestMeasure(t *testing.T) {
	dir := filepath.Join("testdata", "house")
	loaded, err := packages.Load(&packages.Config{Context: t.Context(), Dir: dir, Mode: packages.LoadSyntax}, ".")
	if err != nil || len(loaded) != 1 {
		t.Fatalf("got %d packages and error %v", len(loaded), err)
	}
	loaded[0].Dir = dir
	p, err := measure(loaded[0])
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a.go", "b.go", "c.go"}; !slices.Equal(p.files, want) || p.lines != 31 {
		t.Errorf("got files %v with %d lines, want %v with 31", p.files, p.lines, want)
	}
	if got, up := p.arrows.count(), p.arrows.back(p.order); got != 4 || up != 1 {
		t.Errorf("got %d arrows, %d back up; want 4 and 1", got, up)
	}
	if len(p.types) != 1 || p.types[0].methods != 2 {
		t.Errorf("got types %v, want one with 2 methods", p.types)
	}
	if len(p.mutexes) != 2 || p.mutexes[0].explained == p.mutexes[1].explained {
		t.Errorf("got mutexes %v, want two, one with a comment", p.mutexes)
	}
}
