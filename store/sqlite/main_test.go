package sqlite_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// childEnv names what a re-executed test binary does instead of testing.
const childEnv = "TROUPE_SQLITE_TEST_CHILD"

// children are those programs; each takes the path of a store.
var children = map[string]func(path string) error{
	"append": appendForever,
	"fill":   fillDisk,
	"open":   openUnprivileged,
}

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childEnv)]; ok {
		if err := child(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childCommand runs one of children in a process of its own.
func childCommand(t *testing.T, name, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, path)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	cmd.Stderr = t.Output()
	return cmd
}
