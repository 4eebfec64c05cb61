package modelservers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// startTime bounds the start of a server.
const startTime = time.Minute

// Server is a model server that runs.
type Server struct {
	URL string // without a path

	dir string // its home, and its log
	cmd *exec.Cmd
}

// listening is what both servers log once they answer.
var listening = regexp.MustCompile(`(?i)listening on (?:http://)?(127\.0\.0\.1:[1-9][0-9]*)`)

// start runs a program with nothing of our environment but PATH, until it listens.
func start(dir, program string, env []string, args ...string) (*Server, error) {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// The program inherits the other end and never uses it: ours ends when it does.
	alive, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer alive.Close()
	s := &Server{dir: dir, cmd: exec.Command(program, args...)}
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, log, log
	s.cmd.Env = append([]string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, env...)
	s.cmd.ExtraFiles = []*os.File{theirs}
	separate(s.cmd)
	err = s.cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	for end := time.Now().Add(startTime); time.Now().Before(end); {
		if found := listening.FindSubmatch(s.readLog()); found != nil {
			s.URL = "http://" + string(found[1])
			return s, nil
		}
		_ = alive.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // pipes have deadlines
		if _, err := alive.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	s.Kill()
	return nil, fmt.Errorf("%s does not listen:\n%s", program, s.Log())
}

// Kill ends the server and all that it has started as kill -9 does, and waits for its
// end. It may be called again.
func (s *Server) Kill() {
	if s.cmd.ProcessState == nil {
		killGroup(s.cmd)
		_ = s.cmd.Wait() // killed, as it should be
	}
}

// Stop is Kill, and removes what the server has kept.
func (s *Server) Stop() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}

func (s *Server) readLog() []byte {
	data, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return []byte(err.Error())
	}
	return data
}

// logShown bounds what of a log is shown, in bytes.
const logShown = 4 << 10

// Log returns the end of what the server has logged, for failures.
func (s *Server) Log() string {
	data := s.readLog()
	return string(data[max(0, len(data)-logShown):])
}
