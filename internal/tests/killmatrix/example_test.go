//go:build linux

package killmatrix

import (
	"bufio"
	"context"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/tests"
	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// TestDurable: examples/durable is killed while its approval is open, the approval is given with
// "troupe inbox" while no process works on the run, and the program that is started again goes on with
// it: the model is not asked again.
func TestDurable(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	root, err := tests.Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	program, db := filepath.Join(dir, "durable"), filepath.Join(dir, "payments.db")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./examples/durable")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	model := llmtest.NewServer(llmtest.Call("transfer", `{"to":"Ada","euros":20}`), llmtest.Say("Ada has her money."))
	srv := httptest.NewServer(model)
	defer srv.Close()
	start := func() (*exec.Cmd, io.Reader) {
		cmd := exec.CommandContext(ctx, program, db)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.Env = append(os.Environ(), "HOME="+dir, "TROUPE_MODEL=openai/scripted", "OPENAI_BASE_URL="+srv.URL, "OPENAI_API_KEY=none")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	cmd, out := start()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "It waits: may it call transfer with ") {
		t.Fatalf("the program says %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	troupe := peers.Troupe{Program: peers.RequireTroupe(t), Home: dir}
	shown, err := troupe.Run(ctx, "--store", db, "inbox", "ls", "--json")
	if err != nil || !strings.Contains(string(shown), `"transfer"`) {
		t.Fatalf("the inbox: %v\n%s", err, shown)
	}
	if _, err := troupe.Run(ctx, "--store", db, "inbox", "answer", "-1", "--accept"); err != nil {
		t.Fatal(err)
	}
	for { // until the lease of the process that was killed is over
		cmd, out = start()
		text, err := io.ReadAll(out)
		if ended := cmd.Wait(); ended == nil && err == nil && strings.HasSuffix(string(text), "Ada has her money.\n") {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the program does not end: it says %q, %v", text, err)
		case <-time.After(time.Second):
		}
	}
	if n := len(model.Chats()); n != 2 {
		t.Errorf("the model was asked %d times, want 2", n)
	}
	events, err := troupe.Run(ctx, "--store", db, "runs", "show", "salary-of-ada")
	if err != nil || !strings.Contains(string(events), "20 euros were sent to Ada") || !strings.Contains(string(events), "run.resumed") {
		t.Errorf("the run: %v\n%s", err, events)
	}
}
