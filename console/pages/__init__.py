"""The pages: one module each, which parses the request, calls the services and renders a template.

A page has its frame and static data; live data comes through the WebSocket. Pages never change a broker: their scripts
call `/api/v1/`, which checks permissions and writes audit rows.
"""
