package sqlite_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/troupe-dev/troupe/store/sqlite"
)

// pureEnv, if it is not empty, makes a test binary that is linked with both libraries
// use the one in Go.
const pureEnv = "TROUPE_SQLITE_TEST_PURE"

// childEnv names what a re-executed test binary does instead of testing.
const childEnv = "TROUPE_SQLITE_TEST_CHILD"

// children are those programs; each takes the path of a store.
var children = map[string]func(path string) error{
	"append": appendForever,
	"share":  shareFile,
	"vacuum": vacuumFile,
}

func TestMain(m *testing.M) {
	if os.Getenv(pureEnv) != "" {
		sqlite.UsePure()
	}
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
