package agent_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// restartVariable makes the test binary a program that starts or finds the run "r1" in the store of that file.
const restartVariable = "TROUPE_TEST_RESTART"

// TestRestartProgram is no test but that program. It prints the types of the run's events and then its answer.
func TestRestartProgram(t *testing.T) {
	file, how := os.Getenv(restartVariable), os.Getenv("TROUPE_TEST_RESTART_BY")
	if file == "" {
		t.Skip("it is started by TestKilledTwice")
	}
	s, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	turns := []llmtest.Turn{llmtest.Say("ok")}
	if how == "first" {
		turns = append([]llmtest.Turn{call("double", `{"n":2}`)}, turns...)
	}
	rt, err := agent.Open(t.Context(), &agent.Options{Store: s, Model: llmtest.Script(turns...), Lease: time.Hour, Tools: []agent.Tool{agent.NeedsApproval(double)}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	a, err := rt.Agent("clerk", &agent.Config{AskExpiry: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var run *agent.Run
	if how == "find" {
		run, err = rt.Find(t.Context(), "r1")
	} else {
		run, err = a.Start(t.Context(), "go", &agent.RunOptions{ID: "r1"})
	}
	if err != nil {
		t.Fatal(err)
	}
	head, err := s.Run(t.Context(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("epoch", head.Epoch)
	for ev, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("event", ev.EventType())
	}
	res, err := run.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("answer", res.Text)
}

// program starts the program, and returns what it prints. The test that ends kills it.
func program(t *testing.T, file, how string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRestartProgram$")
	cmd.Env = append(os.Environ(), restartVariable+"="+file, "TROUPE_TEST_RESTART_BY="+how)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

// await reads until a line.
func await(t *testing.T, who string, out *bufio.Scanner, line string) {
	t.Helper()
	var before []string
	for out.Scan() {
		if out.Text() == line {
			return
		}
		before = append(before, out.Text())
	}
	t.Fatalf("%s: no line %q, but\n%s", who, line, strings.Join(before, "\n"))
}

// TestKilledTwice: a program that is killed and started again goes on with its run at once, although its lease would last for an hour;
// and so once more. A process that has found the run between sees its end.
func TestKilledTwice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store.db")
	for n, how := range []string{"first", "second"} {
		cmd, out := program(t, file, how)
		await(t, how, out, fmt.Sprintf("epoch %d", n+1))
		await(t, how, out, "event ask")
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	_, found := program(t, file, "find")
	await(t, "find", found, "epoch 2")
	_, third := program(t, file, "third")
	await(t, "third", third, "epoch 3")
	s, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	accept(t, s, "r1")
	await(t, "third", third, "answer ok")
	await(t, "find", found, "answer ok")
	kinds := make(map[string]int)
	for ev, err := range store.Replay(context.Background(), s, "r1", 0) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[ev.Type]++
	}
	if kinds[store.ToolDispatched] != 1 || kinds[store.AskOpened] != 1 || kinds[store.RunFinished] != 1 {
		t.Errorf("the journal: got %v, want one call, one question and one end", kinds)
	}
}
