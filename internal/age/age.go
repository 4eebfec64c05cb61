// Package age reads times that may be long, such as 90d.
package age

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Parse reads a time above zero: a whole number of days, such as 90d, or what
// [time.ParseDuration] reads.
func Parse(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseInt(days, 10, 32); err == nil && n > 0 && n <= int64(math.MaxInt64/day) {
			return time.Duration(n) * day, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("want a time such as 90d, 36h or 10m, got %.40q", text)
}
