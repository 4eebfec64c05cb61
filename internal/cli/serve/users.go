package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/userfile"
	"github.com/troupe-dev/troupe/mcpserver/authserver"
)

// usersCommand edits the file of --auth-users.
func usersCommand(e *env.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "users",
		Short: "The users of a server with --auth-embedded",
		Long: `The users who may log in at a server with --auth-embedded --auth-users FILE. The file has a line for each, with a hash of the password
(argon2id; lines of "htpasswd -B" are good, too), and only you may be allowed to read it. A server that runs reads a change at once: the logins
of a user who is removed, or gets another password, end.`,
	}
	file := func(n int) cobra.PositionalArgs {
		return func(_ *cobra.Command, args []string) error {
			if len(args) != n {
				return env.Usagef("want the file of the users%s", map[int]string{2: ", and the name of a user"}[n])
			}
			return nil
		}
	}
	var role string
	add := &cobra.Command{
		Use: "add FILE NAME", Short: "Add a user, or give a user another password",
		Long: `Add a user to the file, which is made where there is none, or give a user another password. The password is asked for, or is the first
line of stdin where that is no terminal. It has at least 8 bytes. --role says what the user may do in a console
(troupe console --users): look, answer questions, or operate; without one the user keeps the role, and a new user may look.`,
		Example: "  troupe serve users add users.txt alice\n  troupe serve users add --role operate users.txt bob",
		Args:    file(2),
		RunE: func(_ *cobra.Command, args []string) error {
			password, err := readPassword(e, args[1])
			if err != nil {
				return err
			}
			if err := userfile.Set(args[0], args[1], password, role); err != nil {
				return env.Usagef("%w", err)
			}
			e.Note("%s may log in", args[1])
			return nil
		},
	}
	add.Flags().StringVar(&role, "role", "", "what the user may do in a console: look, answer or operate (default: as before, else look)")
	cmd.AddCommand(add, &cobra.Command{
		Use: "rm FILE NAME", Short: "Remove a user, whose logins end", Args: file(2),
		Long:    "Remove a user from the file. A server that runs ends what the user has granted within half a minute.",
		Example: "  troupe serve users rm users.txt alice",
		RunE: func(_ *cobra.Command, args []string) error {
			err := authserver.RemoveUser(args[0], args[1])
			if errors.Is(err, authserver.ErrNoUser) {
				names, _ := authserver.UserNames(args[0])
				return env.Usagef("there is no user %q in %s%s", args[1], args[0], env.DidYouMean(args[1], names))
			}
			if err != nil {
				return env.Usagef("%w", err)
			}
			e.Note("%s may not log in any more", args[1])
			return nil
		},
	})
	var asJSON bool
	ls := &cobra.Command{
		Use: "ls FILE", Short: "List the users", Args: file(1),
		Long:    "List the names of the users in the file, in its order.",
		Example: "  troupe serve users ls users.txt",
		RunE: func(_ *cobra.Command, args []string) error {
			names, err := authserver.UserNames(args[0])
			if err != nil {
				return env.Usagef("%w", err)
			}
			if asJSON {
				return e.PrintJSON(append([]string{}, names...))
			}
			for _, name := range names {
				fmt.Fprintln(e.Stdout, name)
			}
			return nil
		},
	}
	ls.Flags().BoolVar(&asJSON, "json", false, "print JSON: a list of names")
	cmd.AddCommand(ls)
	return cmd
}

// readPassword asks for a password, twice and without showing it, or reads a line of stdin.
func readPassword(e *env.Env, user string) (string, error) {
	fd := int(e.Stdin.Fd())
	if !term.IsTerminal(fd) {
		line, err := bufio.NewReader(io.LimitReader(e.Stdin, 4096)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", env.Usagef("reading the password from stdin: %w", err)
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	var typed [2]string
	for i, prompt := range []string{"Password of " + user + ": ", "Again: "} {
		fmt.Fprint(e.Stderr, prompt)
		raw, err := term.ReadPassword(fd)
		fmt.Fprintln(e.Stderr)
		if err != nil {
			return "", env.Usagef("reading the password: %w", err)
		}
		typed[i] = string(raw)
	}
	if typed[0] != typed[1] {
		return "", env.Usagef("the two passwords differ")
	}
	return typed[0], nil
}
