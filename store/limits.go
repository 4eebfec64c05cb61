package store

// Bounds of every store. They are the same for all, so that what one takes
// another takes too.
const (
	MaxID        = 128      // characters of an ID, a type, a kind or an owner
	MaxText      = 4 << 10  // bytes of any other name or text
	MaxPath      = 64       // elements of [Ask.Path]
	MaxBody      = 16 << 20 // bytes of one event's body, of a payload, a default or an answer
	MaxEvents    = 512      // events of one append
	MaxPage      = 1000     // entries of one page
	MaxPageBytes = 32 << 20 // bytes of the bodies of one page or of one append
	MaxApprovals = 4096     // recorded approvals
	MaxPins      = 1 << 16  // tools that are remembered
	MaxRecords   = 1 << 16  // records that have not expired

	MaxOwned      = 4096     // of them, those of one owner
	MaxOwnedBytes = 64 << 20 // bytes of the values of one owner's

	MaxSecrets = 1 << 16  // sealed secrets, and leases on them
	MaxSealed  = 64 << 10 // bytes of the value of one

	MaxJobID     = MaxID - 16 // characters of a job's ID: those of its runs are longer
	MaxInput     = 1 << 20    // bytes of a job's prompt, and of its input
	MaxAttempts  = 1000       // of one job
	MaxSchedules = 1024
	MaxClaim     = 1000 // jobs of one claim, and leases of one renewal
	BriefPrompt  = 200  // characters of a job's prompt in a brief list

	maxStates = 16 // states of one query
)
