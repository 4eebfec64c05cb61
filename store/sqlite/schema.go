package sqlite

import "context"

// Schema returns the version of the schema of the file.
func (s *Store) Schema(ctx context.Context) (version int, err error) {
	err = s.read(ctx, "reading the version of the schema", func(q reader) error {
		return q.row("SELECT user_version FROM pragma_user_version").Scan(&version)
	})
	return version, err
}
