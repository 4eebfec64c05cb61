package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// read reads one file; with foreign, as one that comes with a project. Models are not
// held against providers.
func read(path string, foreign bool) (*Config, error) {
	data, _, err := readFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(path, data, foreign)
}

// Parse reads the text of a file; with foreign, as one that comes with a project and that the
// user has not named.
func Parse(path string, data []byte, foreign bool) (*Config, error) {
	if len(data) > maxFile {
		return nil, &Error{[]Problem{{File: path, Text: fmt.Sprintf("larger than %d MiB", maxFile>>20)}}}
	}
	c := &Config{Files: []string{path}}
	d := &decoder{reader{file: path}}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &Error{[]Problem{{File: path, Text: `the file is empty; it begins with "version: 1"`}}}
	case err != nil:
		return nil, syntax(path, err)
	}
	if err := dec.Decode(&more); err == nil {
		d.fail(&more, "a second document in the file: only one is taken")
	} else if !errors.Is(err, io.EOF) {
		return nil, syntax(path, err)
	}
	d.config(doc.Content[0], c, foreign)
	if len(d.problems) > 0 {
		return nil, &Error{d.problems}
	}
	c.values = d.values
	c.sections = make(map[string]bool)
	for key := range c.values {
		section, _, _ := strings.Cut(key, ".")
		c.sections[section] = true
	}
	return c, nil
}

// Places says where files are looked for. The zero value looks nowhere.
type Places struct {
	Project string // the folder of the project
	User    string // the user's folder for configurations, as os.UserConfigDir
	Home    string // the user's home, for agents that have files of their own
	System  string // that of all users, such as /etc
}

// Here are the places of this process.
func Here() Places {
	var p Places
	p.Project, _ = os.Getwd() // what cannot be found out is not looked at
	p.Home, _ = os.UserHomeDir()
	p.User, _ = UserFolder("XDG_CONFIG_HOME", ".config")
	if p.System = "/etc"; runtime.GOOS == "windows" {
		p.System = os.Getenv("ProgramData")
	}
	return p
}

// UserFolder is the folder that an XDG variable names, or what the operating system has in
// its place; on Unix that is the folder unix in the user's home.
func UserFolder(variable, unix string) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return dir, nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return os.UserConfigDir()
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, unix), nil
}

// ProjectFile is the file of the project, "" if there is no place for it.
func (p Places) ProjectFile() string {
	if p.Project == "" {
		return ""
	}
	return filepath.Join(p.Project, FileName)
}

// UserFile is the user's own file, "" if there is no place for it.
func (p Places) UserFile() string { return fileBelow(p.User) }

// SystemFile is the file for all users, "" if there is no place for it.
func (p Places) SystemFile() string { return fileBelow(p.System) }

func fileBelow(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "troupe", FileName)
}

// Load reads the named file, or if none is named those that are there: the project's over
// the user's over the system's. Agents with files of their own are there in both cases. No
// file at all is an empty Config.
func (p Places) Load(named string) (*Config, error) {
	own, err := p.loadOwn(named)
	if err != nil {
		return nil, err
	}
	found := new(Config)
	if path := p.ProjectFile(); named == "" && path != p.UserFile() {
		if found, err = readIfThere(path, true); err != nil {
			return nil, err
		}
	}
	if p.Project != "" && p.Project != p.Home {
		if err := found.readAgents(p.Project, true); err != nil {
			return nil, err
		}
	}
	if named != "" {
		maps.DeleteFunc(found.Agents, func(name string, _ Agent) bool { _, ok := own.Agents[name]; return ok })
	}
	c := found.over(own, true)
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// loadOwn reads what is the user's word: the named file, or else the user's over the
// system's; and the user's agents.
func (p Places) loadOwn(named string) (c *Config, err error) {
	if named != "" {
		c, err = read(named, false)
	} else if c, err = readIfThere(p.SystemFile(), false); err == nil {
		var user *Config
		if user, err = readIfThere(p.UserFile(), false); err == nil {
			c = user.over(c, false)
		}
	}
	if err != nil {
		return nil, err
	}
	if p.Home != "" {
		err = c.readAgents(p.Home, false)
	}
	return c, err
}

// readIfThere reads a file; one that is not there is empty.
func readIfThere(path string, foreign bool) (*Config, error) {
	if path == "" {
		return new(Config), nil
	}
	c, err := read(path, foreign)
	if errors.Is(err, os.ErrNotExist) {
		return new(Config), nil
	}
	return c, err
}
