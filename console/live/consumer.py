"""stub"""
from channels.generic.websocket import AsyncJsonWebsocketConsumer
class LiveConsumer(AsyncJsonWebsocketConsumer):
    pass
