package main

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary the program itself and the servers that the tests
// start: what counts is the name that it is called by.
func TestMain(m *testing.M) {
	testscript.Main(patient{m}, map[string]func(){
		"troupe":     main,
		"fakeserver": fakeServer,
		"effects":    effectServer,
		"asker":      askServer,
		"sampler":    sampleServer,
		"skillful":   skillServer,
		"scribe":     scribe,
		"browse":     browse,
		"signin":     signIn,
	})
}

// patient runs tests that mostly wait, for processes and limits: more of them at once
// than there are processors.
type patient struct{ *testing.M }

func (p patient) Run() int {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("8")
	}
	return p.M.Run()
}
