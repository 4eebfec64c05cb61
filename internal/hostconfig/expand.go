package hostconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/troupe-dev/troupe/internal/clip"
)

// answer is the answer to an input.
type answer struct {
	text string
	err  error
}

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	bare     = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*`)
)

// expandString replaces ${…}, and $VAR in Gemini's files. Values are not expanded again,
// and no shell ever sees them.
func (r *reader) expandString(s string) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:i])
		s = s[i:]
		var value, written string // written stands for value
		var err error
		switch name := bare.FindString(s); {
		case strings.HasPrefix(s, "${"):
			end := closing(s)
			if end < 0 {
				return "", fmt.Errorf("%q has no closing brace", clip.Text(s, maxShown))
			}
			value, err = r.value(s[2:end])
			written, s = s[:end+1], s[end+1:]
		case r.gemini && name != "":
			value, err = r.environment(name[1:], "", false)
			written, s = name, s[len(name):]
		default:
			value, written, s = "$", "$", s[1:]
		}
		if err != nil {
			return "", err
		}
		if r.noted != nil && written != "$" {
			r.noted[written] = value
		}
		b.WriteString(value)
		if r.spent += len(value); r.spent > maxExpanded {
			return "", fmt.Errorf("the variables of the file have more than %d MiB together", maxExpanded>>20)
		}
	}
}

// closing returns the index of the brace that closes the ${ at the start of s,
// counting those within, or -1.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "${"):
			depth++
			i++
		case s[i] == '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// value returns the value of ${inside}. A default is taken as it is written,
// braces included.
func (r *reader) value(inside string) (string, error) {
	switch inside {
	case "workspaceFolder":
		return r.opts.WorkspaceFolder, nil
	case "workspaceFolderBasename":
		return filepath.Base(r.opts.WorkspaceFolder), nil
	case "userHome":
		if r.opts.UserHome == "" {
			return "", fmt.Errorf("${userHome}: %w: there is no home directory", ErrUnset)
		}
		return r.opts.UserHome, nil
	case "pathSeparator", "/":
		return string(os.PathSeparator), nil
	}
	if id, ok := strings.CutPrefix(inside, "input:"); ok {
		return r.input(id)
	}
	name, fallback, hasDefault := strings.Cut(strings.TrimPrefix(inside, "env:"), ":-")
	if !variable.MatchString(name) {
		return "", fmt.Errorf("${%s} is not understood; known are ${VAR}, ${VAR:-default}, ${env:VAR}, ${input:id}, "+
			"${workspaceFolder}, ${workspaceFolderBasename}, ${userHome} and ${pathSeparator}", clip.Text(inside, maxShown))
	}
	return r.environment(name, fallback, hasDefault)
}

// environment is a variable's value; as in a shell, a default also stands for an empty one.
func (r *reader) environment(name, fallback string, hasDefault bool) (string, error) {
	v, set := r.opts.LookupEnv(name)
	switch {
	case hasDefault && v == "":
		return fallback, nil
	case !set:
		return "", fmt.Errorf("%w: %s; set it in the environment, or write ${%s:-default} here", ErrUnset, name, name)
	case strings.ContainsRune(v, 0):
		return "", fmt.Errorf("the variable %s has a NUL character", name)
	}
	return v, nil
}

// input is the answer to ${input:id}; each input is asked for once.
func (r *reader) input(id string) (string, error) {
	if a, known := r.answers[id]; known {
		return a.text, a.err
	}
	var a answer
	a.text, a.err = r.ask(id)
	r.answers[id] = a
	return a.text, a.err
}

func (r *reader) ask(id string) (string, error) {
	variable := inputVariable(id)
	if v, set := r.opts.LookupEnv(variable); set {
		return v, nil
	}
	for _, in := range r.file.Inputs {
		if in.ID != id {
			continue
		}
		if r.opts.Input == nil {
			return "", fmt.Errorf("%w: %s; set %s in the environment", ErrInput, id, variable)
		}
		v, err := r.opts.Input(in)
		if err != nil && !errors.Is(err, ErrInput) {
			err = fmt.Errorf("%w: %s: %w", ErrInput, id, err)
		}
		return v, err
	}
	return "", fmt.Errorf("%w: %s is not among the inputs of the file; add it there, or set %s in the environment", ErrInput, clip.Text(id, maxShown), variable)
}

// inputVariable is the environment variable that answers an input.
func inputVariable(id string) string {
	return "TROUPE_INPUT_" + strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		case c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
			return c
		}
		return '_'
	}, id)
}

// reader reads one document.
type reader struct {
	*document
	opts    Options
	file    *File
	base    string            // what relative paths start from, and where commands run
	spent   int               // bytes of expanded texts
	gemini  bool              // $VAR expands, and the file holds other settings
	warned  map[string]bool   // unknown keys
	answers map[string]answer // of inputs
	noted   map[string]string // takes the values of variables, by how they are written; nil for none

	allowed, excluded []string // Gemini's choice of servers by name; nil allows all
}
