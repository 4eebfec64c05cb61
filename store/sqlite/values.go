package sqlite

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"reflect"

	"github.com/troupe-dev/troupe/store"
)

// values is a row as the driver has it.
type values []driver.Value

// Scan copies the columns to where dest points: integers, texts, truth values, bytes, and what scans
// itself.
func (v values) Scan(dest ...any) error {
	if len(dest) != len(v) {
		return fmt.Errorf("a row has %d columns, and not %d", len(v), len(dest))
	}
	for i, to := range dest {
		if !scanValue(to, v[i]) {
			if err := scanOther(to, v[i]); err != nil {
				return fmt.Errorf("column %d: %w", i+1, err)
			}
		}
	}
	return nil
}

// scanValue does what most columns are, and reports false for others.
func scanValue(to any, from driver.Value) bool {
	switch from := from.(type) {
	case int64:
		switch to := to.(type) {
		case *int64:
			*to = from
		case *int:
			*to = int(from)
		case *bool:
			*to = from != 0
		case *micros:
			_ = to.Scan(from)
		default:
			return false
		}
		return true
	case string:
		switch to := to.(type) {
		case *string:
			*to = from
		case *body:
			_ = to.Scan(from)
		case *store.JobState:
			*to = store.JobState(from)
		case *store.RunState:
			*to = store.RunState(from)
		default:
			return false
		}
		return true
	}
	return false
}

// scanOther is for what scans itself, and for types that are named.
func scanOther(to any, from driver.Value) error {
	if to, ok := to.(sql.Scanner); ok {
		return to.Scan(from)
	}
	if to := reflect.ValueOf(to); to.Kind() == reflect.Pointer {
		if from := reflect.ValueOf(from); from.IsValid() && from.CanConvert(to.Type().Elem()) && from.Kind() == to.Type().Elem().Kind() {
			to.Elem().Set(from.Convert(to.Type().Elem()))
			return nil
		}
	}
	return fmt.Errorf("a %T is not for a %T", from, to)
}
