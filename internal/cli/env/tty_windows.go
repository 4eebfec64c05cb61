package env

import "os"

// openTTY opens the console of the process, whatever stdin is.
func openTTY() (*os.File, error) { return os.OpenFile("CONIN$", os.O_RDWR, 0) }
