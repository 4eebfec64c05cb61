//go:build unix

package process

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// survivors ends the groups of this process when this process is killed.
var survivors guard

// guard is a shell that knows the groups that run. It reads them from a pipe whose other
// end only we have, so that the pipe ends with us, however we end. One shell serves all
// groups, and runs only while there are any.
type guard struct {
	mu     sync.Mutex
	groups map[int]struct{}
	shell  *exec.Cmd // nil: there are no groups, or no shell
	pipe   *os.File
}

// script keeps the groups in a text with a space around each. The shell reads numbers
// only, which are ours: nothing of a server's definition reaches it.
const script = `trap '' HUP INT QUIT TERM
groups=' '
while read -r op group; do
	case $op in
	+) groups="$groups$group " ;;
	-) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
	esac
done
[ "$groups" = ' ' ] && exit
sleep 2
for group in $groups; do kill -s TERM -- "-$group"; done
sleep 2
for group in $groups; do kill -s KILL -- "-$group"; done
`

// patience bounds how long the shell may leave its pipe full.
const patience = time.Second

// add makes the group one that ends with us.
func (g *guard) add(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.groups == nil {
		g.groups = make(map[int]struct{})
	}
	g.groups[group] = struct{}{}
	if g.tell(fmt.Sprintf("+ %d\n", group)) != nil {
		g.stop()
		g.start() // with all groups
	}
}

// remove forgets a group that has ended.
func (g *guard) remove(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	switch {
	case len(g.groups) == 0:
		g.stop()
	case g.tell(fmt.Sprintf("- %d\n", group)) != nil:
		g.stop()
		g.start()
	}
}

func (g *guard) tell(line string) error {
	if g.shell == nil {
		return os.ErrClosed
	}
	if err := g.pipe.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := io.WriteString(g.pipe, line)
	return err
}

// start starts the shell. Without one the groups end as far as the package's comment
// says.
func (g *guard) start() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer r.Close()
	shell := &exec.Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", script, "troupe-guard"}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
		Stdin: r, SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // no signal of a terminal or to our group
	}
	if shell.Start() != nil {
		w.Close()
		return
	}
	g.shell, g.pipe = shell, w
	var all strings.Builder
	for _, group := range slices.Sorted(maps.Keys(g.groups)) {
		fmt.Fprintf(&all, "+ %d\n", group)
	}
	if g.tell(all.String()) != nil {
		g.stop()
	}
}

// stop kills the shell before the pipe ends, so that it touches no group.
func (g *guard) stop() {
	if g.shell == nil {
		return
	}
	_ = g.shell.Process.Kill()
	_ = g.shell.Wait()
	g.pipe.Close()
	g.shell, g.pipe = nil, nil
}
