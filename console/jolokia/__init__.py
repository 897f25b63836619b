"""`/jolokia/`: the managed objects of every broker in Jolokia's protocol, for tools that speak it.

Pure: `names.py` (names as JMX writes them), `paths.py` (requests in a URL), `protocol.py` (requests and answers),
`values.py` (conversion of values), `descriptions.py` (types as `list` describes them). `objects.py` reads through the
links that the user may see, `listing.py` lists what is there, `handling.py` answers a request, with changes by
`console/operations/` as in the API, `authentication.py` checks who asks and from which page, `view.py` is the view.
"""
