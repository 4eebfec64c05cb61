package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// citation also takes in what is no id but was meant as one: a wrong number of
// digits, and the short forms SAMP-20/21 and HDR-20..26.
var citation = regexp.MustCompile(`\b([A-Z]+)-\d+(?:(?:/|\.\.)\d+)*\b`)

// findCited scans the tests and transcripts below root. It returns the ids of
// the list that are cited, and a line for each citation that is not in the list.
// Words like UTF-8 are not citations: their prefix is none of the list's.
func findCited(root fs.FS, list []rule) (cited map[string]bool, unknown []string, err error) {
	ids, prefixes := map[string]bool{}, map[string]bool{}
	for _, r := range list {
		ids[r.id], prefixes[r.prefix()] = true, true
	}
	cited = map[string]bool{}
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(name):
			return fs.SkipDir
		case d.IsDir() || !citesRules(name):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, m := range citation.FindAllStringSubmatch(line, -1) {
				switch {
				case ids[m[0]]:
					cited[m[0]] = true
				case prefixes[m[1]]:
					unknown = append(unknown, fmt.Sprintf("%s:%d cites %s, which %s does not have", name, i+1, m[0], listFile))
				}
			}
		}
		return nil
	})
	return cited, unknown, err
}

// skipped names the folders that hold no tests of ours, and this one, whose test has made-up citations.
func skipped(dir string) bool {
	base := path.Base(dir)
	return dir == "internal/rules" || base == "node_modules" || base != "." && strings.HasPrefix(base, ".")
}

func citesRules(file string) bool {
	return strings.HasSuffix(file, "_test.go") ||
		strings.Contains("/"+file, "/testdata/") && path.Ext(file) == ".txtar"
}
