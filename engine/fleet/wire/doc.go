// Package wire is what the boxes of a chain and its centre say to each other through an object store: the keys of the
// objects, what is in each, who signs it, and the two operations that the store must keep. It does no I/O of its own.
//
//	fleet/v1/rules/<sha256>                   a signed bundle                                           created once
//	fleet/v1/settings/<sha256>                Settings                                                  created once
//	fleet/v1/desired/<group>/<12 digits>.jws  Desired: what a group shall run       director            created once
//	fleet/v1/boxes/<branch>/<epoch>.jws       Enrolment: whose branch it is         director            created once
//	fleet/v1/status/<branch>.jws              Status: how the branch is             the box             overwritten by the box
//	fleet/v1/acts/<branch>/<n>.jws            Act: what happened in the branch      the box             created once
//	copy/v1/<branch>/<epoch>/<segment>        a segment of the second copy's log                        created once
//	copy/v1/<branch>/<epoch>/base/<n>.jws     Base: months of the log in few parts    the box             created once
//	copy/v1/<branch>/<epoch>/part/<sha256>    a part of a base                                          created once
//	copy/v1/<branch>/<epoch>/whole.jws        WholeCopy: the log is in the store      the box             created once
//
// Every .jws is a flattened JWS with one Ed25519 signature, read by the reader of the rule bundles (rules/signed). The payload names
// what it is (kind), whose it is, and its number, therefore no object can stand in for another. Times are RFC 3339.
//
// The director's key says which bundle, where and from when. It cannot make a bundle: those bear the signatures of the
// rules' keys, which the box checks as it does for a bundle that somebody pushes.
package wire
