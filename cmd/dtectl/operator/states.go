package operator

// PublicStates are the API's names of the stored states (engine/lifecycle.go), which are never renumbered. 1 is signed
// and not settled, which has no name; from 16 on they are not documents.
var PublicStates = [...]string{1: "", 2: "PROCESSED", 3: "REJECTED", 4: "CONTINGENCIA", 5: "INVALIDATED", 6: "CONTINGENCIA"}
