package agent_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
)

// serverVariable makes the test binary a server on its standard streams, which writes its
// process id to the file that the variable names.
const serverVariable = "TROUPE_TEST_TENANT_SERVER"

// TestTenantServer is no test but that server.
func TestTenantServer(t *testing.T) {
	file := os.Getenv(serverVariable)
	if file == "" {
		t.Skip("it is started by TestTenantProcesses")
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	}
	if err != nil {
		os.Exit(3)
	}
	if err := newAsking(t).ServeStdio(t.Context()); err != nil {
		os.Exit(4)
	}
	os.Exit(0)
}

// SECA-6, SECA-34, ROB-1: two tenants of one definition of a command have a process each.
// Each sees its own questions and no other's, and the end of one tenant ends one process.
func TestTenantProcesses(t *testing.T) {
	pids := t.TempDir() + "/pids"
	srv := mcpclient.Command(os.Args[0], "-test.run=^TestTenantServer$")
	srv.Name, srv.Env = "asking", map[string]*string{serverVariable: &pids}
	rt, err := agent.Open(t.Context(), &agent.Options{Servers: []mcpclient.Server{srv}, Model: llmtest.Script(), Host: &mcpclient.HostOptions{Options: mcpclient.Options{Lazy: true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	processes := func() []string {
		raw, err := os.ReadFile(pids)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Fields(string(raw))
	}
	tenants := map[string]*agent.Tenant{}
	for _, name := range []string{"ada", "bob"} {
		tenants[name] = tenant(t, rt, &agent.TenantOptions{Name: name, Forms: true, Human: answersAs(name)})
	}
	if got := processes(); len(got) != 0 {
		t.Errorf("processes before they are needed: %q", got)
	}
	var wg sync.WaitGroup
	for name, tn := range tenants {
		for range 20 {
			wg.Go(func() {
				res, err := tn.Host().Call(t.Context(), "asking__name", nil, nil)
				if err != nil || res.Content.Text() != name {
					t.Errorf("%s: got %+v, %v", name, res, err)
				}
			})
		}
	}
	wg.Wait()
	if got := processes(); len(got) != 2 || got[0] == got[1] {
		t.Errorf("processes: got %q, want two", got)
	}
	if err := tenants["ada"].Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	running := 0
	for _, pid := range processes() {
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := os.FindProcess(n); err == nil && alive(p) {
			running++
		}
	}
	if running != 1 {
		t.Errorf("%d processes run after one of two tenants was closed", running)
	}
	if res, err := tenants["bob"].Host().Call(t.Context(), "asking__name", nil, nil); err != nil || res.Content.Text() != "bob" {
		t.Errorf("the other: got %+v, %v", res, err)
	}
}
