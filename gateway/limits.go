package gateway

// Limits are the most that one token may ask for.
type Limits struct {
	Rate  int // requests a second for long, default 50
	Burst int // at once, default 200
	// Large is how many bytes a second of bodies over 32 KiB a token may send for sales, for long; eight times as many at
	// once. Default 1 MiB: a sale of 2,000 lines each second.
	Large int64
	// Daily is how many bytes a token may have stored in a day of El Salvador, default 1 GiB.
	Daily int64
}

// Wrong tokens from one address: so many at once and one a second for long. A good token from there goes on being taken:
// one till's mistake stops no other behind the same address.
const wrongBurst = 60

// What takes no token (/docs, /openapi.json, a link to a PDF): requests a second for long and at once, from one network.
const (
	strangersRate  = 5
	strangersBurst = 40
)
