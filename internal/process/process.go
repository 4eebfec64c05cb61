// Package process starts programs whose descendants end with them, and with us.
//
// A program gets a process group of its own (on Windows a job object), so signals reach
// all of it, and those that a terminal sends to us do not. What the program leaves
// running in its group is killed when the program ends.
//
// When our process is killed (SIGKILL, out of memory), nothing in it can run. Then:
//
//   - On Unix one small shell, which runs while there are programs, sees the end of its
//     input. It waits 2 seconds for the programs to end, as their own input has ended,
//     sends SIGTERM to the groups that are left, and 2 seconds later SIGKILL. It needs
//     /bin/sh; where that is missing, only programs end that end with their input.
//   - On Windows the system closes the job objects, which ends all their processes.
//
// A process that moves to another group or session by itself escapes all of this. On Unix
// so may a program that was started just before the kill, unless
// it ends with its input.
//
// On Linux 5.4 and later a program costs no thread while it runs; elsewhere one thread
// waits for each.
package process

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// Process is a started program. Its methods are safe for concurrent use.
type Process struct {
	proc *os.Process // not its command, whose arguments and environment would be held as long as it runs
	tree *tree

	mu       sync.Mutex
	released bool // the tree is gone, and its id may be another's
}

// Start starts cmd, which has to have neither a context nor SysProcAttr. Its Stdin,
// Stdout and Stderr have to be files or nil. The caller has to call Wait.
func Start(cmd *exec.Cmd) (*Process, error) {
	t, err := startTree(cmd)
	if err != nil {
		return nil, err
	}
	return &Process{proc: cmd.Process, tree: t}, nil
}

// Exit returns a file that is readable once the program has ended, so that its end can be waited for without a
// goroutine before Wait is called. It returns nil where there is no such file. Wait closes it.
func (p *Process) Exit() syscall.Conn { return p.tree.ending() }

// Wait waits until the program has ended, kills what is left of its group, and returns
// how the program ended. It is called once.
func (p *Process) Wait() *os.ProcessState {
	ended := p.tree.ended()
	if ended { // but not reaped, so that its id is still its own
		p.release()
	}
	state, _ := p.proc.Wait() // how it ended is in the state
	if !ended {
		p.release()
	}
	return state
}

// Terminate asks the program and its descendants to end. Once the program has ended it
// does nothing.
func (p *Process) Terminate() { p.signal((*tree).terminate) }

// Kill ends the program and its descendants. Once the program has ended it does nothing.
func (p *Process) Kill() { p.signal((*tree).kill) }

func (p *Process) signal(send func(*tree)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.released {
		send(p.tree)
	}
}

func (p *Process) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = true
	p.tree.kill()
	p.tree.release()
}
