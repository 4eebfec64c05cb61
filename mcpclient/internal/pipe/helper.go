package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/shellwords"
)

// Bounds on a helper.
const (
	helperTime = 10 * time.Second
	maxHelper  = 64 << 10 // bytes of its output
)

// HeadersHelper returns the function of a configured command, which prints a JSON
// object of headers.
func HeadersHelper(line, dir string) (func(context.Context) (map[string]string, error), error) {
	const key = "headersHelper"
	run, err := helper(key, line, dir)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (map[string]string, error) {
		out, err := run(ctx)
		if err != nil {
			return nil, err
		}
		headers := map[string]string{}
		if jsonx.Unmarshal(out, &headers) != nil {
			return nil, errors.New(key + `: what it printed is no JSON object of texts, such as {"Authorization": "Bearer …"}`)
		}
		return headers, nil
	}, nil
}

// Assertion returns the function of a configured command, which prints a JWT.
func Assertion(line, dir string) (func(context.Context) (string, error), error) {
	run, err := helper("oauth.assertionCommand", line, dir)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) {
		out, err := run(ctx)
		return string(bytes.TrimSpace(out)), err
	}, nil
}

// helper returns what runs the command of a key of the configuration: without a shell, in the
// folder of the file, with the environment that a server's process gets. Its output is a secret,
// and is in no error.
func helper(key, line, dir string) (func(context.Context) ([]byte, error), error) {
	argv, err := shellwords.Split(line)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return func(ctx context.Context) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, helperTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = dir, environment(os.Environ(), nil), time.Second
		out, last := &capped{max: maxHelper}, &capped{max: 1 << 10}
		cmd.Stdout, cmd.Stderr = out, last
		if err := cmd.Run(); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if text := strings.TrimSpace(last.kept.String()); text != "" {
				err = fmt.Errorf("%w; its last words: %s", err, strings.ToValidUTF8(text, "\uFFFD"))
			}
			return nil, fmt.Errorf("running %s %s: %w", key, argv[0], err)
		}
		if out.over {
			return nil, fmt.Errorf("%s %s printed more than %d KiB", key, argv[0], maxHelper>>10)
		}
		return out.kept.Bytes(), nil
	}, nil
}

// capped keeps the first bytes that are written to it.
type capped struct {
	kept bytes.Buffer // not embedded: its ReadFrom knows no bound
	max  int
	over bool
}

// Write implements io.Writer; it never fails.
func (c *capped) Write(p []byte) (int, error) {
	if room := c.max - c.kept.Len(); len(p) > room {
		c.over = true
		_, _ = c.kept.Write(p[:room])
	} else {
		_, _ = c.kept.Write(p)
	}
	return len(p), nil
}
